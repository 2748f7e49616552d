// Searches again where one input is larger or smaller.
#include "planner/explain/flips.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "cost_model/memory/memory.h"
#include "planner/constraints/constraint.h"
#include "planner/search/derived_search.h"
#include "planner/search/parallel_tasks.h"

namespace ptdp {
namespace {

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

/// A job whose input is changed, which is searched.
struct FlipJob {
  ChangedInput input = ChangedInput::kPeak;
  ChangedJob job;
};

/// Searches jobs with changed inputs.
class FlipSearch {
 public:
  FlipSearch(const Scenario& scenario, SearchOptions options, const ParallelConfig& answer)
      : scenario_(scenario), options_(std::move(options)), answer_(answer) {
    options_.num_best = 1;
    options_.wants_front = false;
    options_.num_threads = 1;  // so that it does as much work each time
    options_.on_progress = {};
  }

  /// Returns the jobs of an input at these changes; those that rounding makes equal are one.
  [[nodiscard]] std::vector<FlipJob> jobs_of(ChangedInput input,
                                             std::span<const double> changes) const {
    std::vector<FlipJob> jobs;
    for (const double change : changes) {
      auto job = changed_job(scenario_, options_.gpus, answer_, {input, change});
      if (job && std::ranges::none_of(
                     jobs, [&](const FlipJob& known) { return known.job.change == job->change; })) {
        jobs.push_back({input, *std::move(job)});
      }
    }
    return jobs;
  }

  /// Adds the points of jobs, each found within `most` of work. Returns the work that it took;
  /// nullopt where a job needs more, or the limit was over: then nothing is added.
  [[nodiscard]] std::optional<Seconds> add(InputFlips& flips, const std::vector<FlipJob>& jobs,
                                           Seconds most) const {
    std::vector<std::optional<FlipPoint>> points(jobs.size());
    std::vector<Seconds> work(jobs.size());
    run_tasks(jobs.size(), options_.num_workers, [&](std::size_t, std::size_t i) {
      SearchOptions options = options_;
      options.gpus = jobs[i].job.gpus;
      options.limit = options_.limit.of_work(most);
      points[i] = point_of(jobs[i].job, options);
      work[i] = options.limit.work();
    });
    if (!std::ranges::all_of(points, &std::optional<FlipPoint>::has_value)) {
      return std::nullopt;
    }
    Seconds sum;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      sum += work[i];
      flips.points.push_back(*std::move(points[i]));
    }
    return sum;
  }

 private:
  /// Returns what is chosen for the job; nullopt if the options' limit ended the search.
  [[nodiscard]] std::optional<FlipPoint> point_of(const ChangedJob& job,
                                                  SearchOptions options) const {
    if (options.limit.is_over()) {
      return std::nullopt;
    }
    FlipPoint point{.change = job.change, .value = job.value};
    const std::optional<Candidate> same = candidate_of(job.scenario, options, answer_);
    IterationTimes times;
    if (same) {
      point.same = same->time;
      // Mostly nothing beats the answer by more than a tie, which takes little to find out.
      const double own = score(same->time, same->config, options.objective);
      SearchOptions alone = options.for_best_alone();
      alone.to_beat = own / (1.0 + options.tie);
      SearchResult found = search(job.scenario, alone, times);
      if (found.best.empty()) {
        found.best.push_back(*same);
      }
      add_derived_plans(job.scenario, alone, found);
      if (found.unseen) {
        return std::nullopt;
      }
      point.is_same = loss(*same, found.best.front(), options.objective) <= options.tie;
      if (point.is_same) {
        point.best = same;
        return point;
      }
      options.to_beat = own * (1.0 + options.tie);
    }
    SearchResult found = search(job.scenario, options, times);
    derive_and_choose(job.scenario, options, found);
    if (found.unseen) {
      return std::nullopt;
    }
    if (!found.best.empty()) {
      point.best = std::move(found.best.front());
    }
    if (same) {
      point.is_same = !point.best || loss(*same, *point.best, options.objective) <= options.tie;
      point.best = point.is_same ? same : point.best;
    }
    return point;
  }

  const Scenario& scenario_;
  SearchOptions options_;
  const ParallelConfig& answer_;
};

}  // namespace

Flips find_flips(const Scenario& scenario, const SearchOptions& options,
                 const ParallelConfig& answer) {
  const FlipSearch search(scenario, options, answer);
  const std::span<const double> changes = kInputChanges;
  const Seconds most_work = options.flip_work;
  Seconds left = most_work;
  Flips flips;
  for (const ChangedInputText& text : kChangedInputs) {
    const std::vector<FlipJob> ends = search.jobs_of(text.input, changes.first(kNumEnds));
    InputFlips input{.input = text.input};
    const auto work = search.add(input, ends, left);
    left = work ? left - *work : Seconds(0.0);
    if (!work) {
      flips.left_out.push_back(text.input);
    } else if (!ends.empty()) {
      flips.inputs.push_back(std::move(input));
    }
  }
  flips.is_coarse = left < (1.0 - kShareOfEnds) * most_work;
  std::vector<InputFlips> whole = flips.inputs;
  for (InputFlips& input : whole) {
    std::vector<FlipJob> others = search.jobs_of(input.input, changes);
    others.erase(others.begin(), others.begin() + std::ssize(input.points));
    flips.is_coarse = flips.is_coarse || !search.add(input, others, left);
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
