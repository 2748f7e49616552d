// Searches again where one input is larger or smaller.
#include "planner/explain/flips.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "cost_model/memory/memory.h"
#include "planner/constraints/constraint.h"
#include "planner/search/derived_search.h"

namespace ptdp {
namespace {

// Share of the options' limit: the rest is for what else is asked of an answer.
constexpr double kShareOfFlips = 0.5;
// Twice as many searches follow the ends.
constexpr double kShareOfEnds = 1.0 / 3.0;

/// Returns the configuration with its time and memory; nullopt where it can't run.
std::optional<Candidate> candidate_of(const Scenario& scenario, const SearchOptions& options,
                                      const ParallelConfig& config) {
  const Scenario widened = as_searched(scenario, options.space);
  const PlannedJob job(widened, config);
  if (config.world_size() > options.gpus ||
      find_violation(job, usable_memory(widened.cluster.gpu, options.memory_headroom))) {
    return std::nullopt;
  }
  IterationTimes times;
  return Candidate{.config = config, .time = times.find(job), .memory = peak_memory(job)};
}

/// Looks at one input after the other.
class FlipSearch {
 public:
  FlipSearch(const Scenario& scenario, const SearchOptions& options, const ParallelConfig& answer)
      : scenario_(scenario), options_(options), answer_(answer) {
    options_.limit = options.limit.share(kShareOfFlips);
    options_.on_progress = {};
  }

  [[nodiscard]] SearchLimit limit_of_ends() const { return options_.limit.share(kShareOfEnds); }

  /// Adds the points of an input at these changes. Returns whether there was time for them.
  bool add(InputFlips& flips, std::span<const double> changes) const {
    for (const double change : changes) {
      const auto job = changed_job(scenario_, options_.gpus, answer_, {flips.input, change});
      const bool is_new = job && std::ranges::none_of(flips.points, [&](const FlipPoint& point) {
                            return point.change == job->change;
                          });
      if (!is_new) {
        continue;
      }
      SearchOptions options = options_;
      options.gpus = job->gpus;
      SearchResult found = search(job->scenario, options);
      derive_and_choose(job->scenario, options, found);
      if (found.unseen) {
        return false;
      }
      const std::optional<Candidate> same = candidate_of(job->scenario, options, answer_);
      FlipPoint& point =
          flips.points.emplace_back(FlipPoint{.change = job->change, .value = job->value});
      if (!found.best.empty()) {
        point.best = std::move(found.best.front());
      }
      if (same) {
        point.same = same->time;
        point.is_same = !point.best || loss(*same, *point.best, options.objective) <= options.tie;
        point.best = point.is_same ? same : point.best;
      }
    }
    return true;
  }

 private:
  const Scenario& scenario_;
  SearchOptions options_;
  const ParallelConfig& answer_;
};

}  // namespace

Flips find_flips(const Scenario& scenario, const SearchOptions& options,
                 const ParallelConfig& answer) {
  const FlipSearch search(scenario, options, answer);
  const SearchLimit limit_of_ends = search.limit_of_ends();
  const std::span<const double> changes = kInputChanges;
  Flips flips;
  for (const ChangedInputText& text : kChangedInputs) {
    InputFlips ends{.input = text.input};
    const bool is_whole = search.add(ends, changes.first(kNumEnds));
    flips.is_coarse = flips.is_coarse || !is_whole;
    if (!ends.points.empty()) {
      flips.inputs.push_back(std::move(ends));
    } else if (!is_whole) {
      flips.left_out.push_back(text.input);
    }
  }
  flips.is_coarse = flips.is_coarse || limit_of_ends.is_over();
  std::vector<InputFlips> whole = flips.inputs;
  for (InputFlips& input : whole) {
    flips.is_coarse = flips.is_coarse || !search.add(input, changes.subspan(kNumEnds));
  }
  if (!flips.is_coarse) {
    flips.inputs = std::move(whole);
  }
  for (InputFlips& input : flips.inputs) {
    std::ranges::sort(input.points, {}, &FlipPoint::change);
  }
  return flips;
}

std::optional<Flip> smallest_flip(const Flips& flips) {
  std::optional<Flip> smallest;
  const auto rank = [](const Flip& flip) {
    const bool is_other_job = flip.input == ChangedInput::kGpus ||
                              (flip.input == ChangedInput::kBatch && !flip.point->same);
    return std::pair(is_other_job, std::abs(flip.point->change));
  };
  for (const InputFlips& input : flips.inputs) {
    for (const FlipPoint& point : input.points) {
      const Flip flip{input.input, &point};
      if (!point.is_same && (!smallest || rank(flip) < rank(*smallest))) {
        smallest = flip;
      }
    }
  }
  return smallest;
}

}  // namespace ptdp
