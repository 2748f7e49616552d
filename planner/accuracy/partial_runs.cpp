// Costs the completions of rows that leave fields out.
#include "planner/accuracy/partial_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/iteration/least_step.h"
#include "cost_model/measured/run_fields.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "planner/accuracy/missing_fields.h"
#include "planner/accuracy/profile_cache.h"
#include "planner/constraints/constraint.h"
#include "planner/search/parallel_tasks.h"

namespace ptdp {
namespace {

constexpr double kMostTflops = 1e6;
/// Ways that are in memory as rows of a table at a time: there may be 50,000, of rows of megabytes.
constexpr std::size_t kWaysAtATime = 64;

/// Returns whether there is a profile of this name, or of which it is another name.
template <class Profile>
bool is_shipped(const std::string& name, Profile (*find)(const std::string&)) {
  try {
    (void)find(name);
    return name.find('/') == std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

/// Reasons for which completions were left out, with how often each was met.
using Reasons = std::map<std::string, std::int64_t>;

/// Returns each reason once; when there are several, each with how many completions it holds for.
std::string text_of(const Reasons& reasons, const PartialRun& partial) {
  std::vector<std::string> parts;
  for (const auto& [reason, count] : reasons) {
    parts.push_back(
        reasons.size() == 1 ? reason : fmt::format("{} ({} of {})", reason, count, partial.tried));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// A way to fill in a row that can run.
struct Way {
  MeasuredRun run;
  Seconds least;  ///< Lower bound of gpu_time_per_sequence().
};

/// Completes one row, first judging its ways, then costing those that are near the fastest.
class RowCompletion {
 public:
  explicit RowCompletion(const SkippedRun& skipped) : row_(*skipped.row) {
    partial_.id = skipped.id;
    partial_.group = skipped.group;
  }

  /// Finds the ways that can run, and what bounds the time of each.
  void judge_ways(ProfileCache& profiles) {
    const std::string cluster = row_.text(0, "cluster_key");
    const std::string stack = row_.text(0, "stack_key");
    if (!is_shipped(cluster, find_cluster) || !is_shipped(stack, find_stack)) {
      return;
    }
    Completions completions =
        complete_missing_fields(row_, find_cluster(cluster), find_stack(stack));
    partial_.unknown = completions.unknown;
    partial_.tried = static_cast<std::int64_t>(completions.values.size());
    if (completions.values.empty()) {
      return;
    }
    if (!has_measurement()) {
      ++reasons_["none of iter_time_best_s, tflops_per_gpu and tokens_s_gpu is given"];
      return;
    }
    if (!has_time()) {
      for (RowFields& fields : completions.values) {
        fields["iter_time_best_s"] = "1";  // replaced once the batch is known
      }
    }
    for (std::size_t first = 0; first < completions.values.size(); first += kWaysAtATime) {
      judge(std::span(completions.values)
                .subspan(first, std::min(kWaysAtATime, completions.values.size() - first)),
            profiles);
    }
    partial_.fits = !fitting_.empty();
    ways_ = std::move(partial_.fits ? fitting_ : too_large_);
    partial_.num_ways = std::ssize(ways_);
  }

  /// Costs the ways that are near the fastest, the lowest bound first: the others need no
  /// simulation.
  void cost_near(ProfileCache& profiles) {
    std::stable_sort(ways_.begin(), ways_.end(),
                     [](const Way& a, const Way& b) { return a.least < b.least; });
    StepSimulations simulations;
    Seconds slowest(std::numeric_limits<double>::infinity());
    for (const Way& way : ways_) {
      if (way.least > slowest) {
        break;
      }
      try {
        const Scenario scenario = profiles.scenario_of(way.run);
        const Seconds time = iteration_time({scenario, way.run.config}, simulations);
        slowest = std::min(slowest, kNearTheFastest * gpu_time_per_sequence(time, way.run));
        partial_.completions.push_back(
            {.run = way.run, .predicted = time, .precision = precision_name(scenario.stack)});
      } catch (const Error& error) {
        ++reasons_[error.what()];
      }
    }
    partial_.completions.erase(
        std::remove_if(partial_.completions.begin(), partial_.completions.end(),
                       [&](const CostedRun& costed) {
                         return gpu_time_per_sequence(costed.predicted, costed.run) > slowest;
                       }),
        partial_.completions.end());
  }

  /// Returns the row as it was completed; its completions are empty when nothing runs.
  [[nodiscard]] const PartialRun& partial() const { return partial_; }
  /// Returns why none of the completions runs; empty when the row cannot be completed.
  [[nodiscard]] std::string reason() const { return text_of(reasons_, partial_); }

 private:
  /// Returns whether the row tells a time, or the tokens of a GPU per second.
  [[nodiscard]] bool has_time() const {
    return !row_.text(0, "iter_time_best_s").empty() || !row_.text(0, "tokens_s_gpu").empty();
  }
  [[nodiscard]] bool has_measurement() const {
    return has_time() || !row_.text(0, "tflops_per_gpu").empty();
  }

  /// Judges some of the ways.
  void judge(std::span<const RowFields> some, ProfileCache& profiles) {
    const CsvTable ways = row_.variations(0, {some.begin(), some.end()});
    check_columns(ways);
    for (std::size_t way = 0; way < ways.num_rows(); ++way) {
      judge(ways, way, profiles);
    }
  }

  /// Judges one way: keeps it with what bounds its time, by whether it fits.
  void judge(const CsvTable& ways, std::size_t row, ProfileCache& profiles) {
    MeasuredRun run;
    try {
      run = read_measured_run(ways, row, models_);
    } catch (const SkipRow& skip) {
      ++reasons_[skip.reason];
      return;
    }
    if (const auto reason = find_skip_reason(run, profiles)) {
      ++reasons_[*reason];
      return;
    }
    if (!has_time()) {
      const auto time = time_of_rate(run, ways.text(row, "flop_convention"),
                                     parse_number(row_.text(0, "tflops_per_gpu"), 1e-6, kMostTflops,
                                                  row_.place_of(0, "tflops_per_gpu")));
      if (!time.has_value()) {
        ++reasons_["no iter_time_best_s, and tflops_per_gpu by a convention that is not known"];
        return;
      }
      run.iteration_time = *time;
    }
    try {
      const Scenario scenario = profiles.scenario_of(run);
      const PlannedJob job(scenario, run.config);
      const Seconds least =
          is_simulated(run.config) ? least_step_time(job) : iteration_cost(job).total();
      Way way{.run = run, .least = gpu_time_per_sequence(least, run)};
      const bool fits = !find_memory_violation(job, usable_memory(scenario.cluster.gpu, 0.0));
      (fits ? fitting_ : too_large_).push_back(std::move(way));
    } catch (const Error& error) {
      ++reasons_[error.what()];
    }
  }

  const CsvTable& row_;
  RowModels models_;
  PartialRun partial_;
  std::vector<Way> fitting_;
  std::vector<Way> too_large_;
  std::vector<Way> ways_;  ///< Those that fit, or all where none does.
  Reasons reasons_;
};

}  // namespace

void complete_partial_runs(CostedRuns& runs) {
  std::vector<ProfileCache> profiles(workers_of_all_cores());
  std::vector<std::optional<RowCompletion>> completions(runs.skipped.size());
  run_tasks(completions.size(), profiles.size(), [&](std::size_t worker, std::size_t i) {
    if (runs.skipped[i].row != nullptr) {
      completions[i].emplace(runs.skipped[i]).judge_ways(profiles[worker]);
    }
  });
  // The rows with most ways first, so that no worker is left alone with a long one.
  std::vector<RowCompletion*> longest_first;
  for (std::optional<RowCompletion>& completion : completions) {
    if (completion) {
      longest_first.push_back(&*completion);
    }
  }
  std::ranges::stable_sort(longest_first, std::greater(), [](const RowCompletion* completion) {
    return completion->partial().num_ways;
  });
  run_tasks(longest_first.size(), profiles.size(), [&](std::size_t worker, std::size_t i) {
    longest_first[i]->cost_near(profiles[worker]);
  });
  std::vector<SkippedRun> still_skipped;
  for (std::size_t i = 0; i < completions.size(); ++i) {
    SkippedRun& skipped = runs.skipped[i];
    if (completions[i] && !completions[i]->partial().completions.empty()) {
      runs.partial.push_back(completions[i]->partial());
      continue;
    }
    if (std::string reason = completions[i] ? completions[i]->reason() : ""; !reason.empty()) {
      skipped.reason = std::move(reason);
    }
    still_skipped.push_back(std::move(skipped));
  }
  runs.skipped = std::move(still_skipped);
}

}  // namespace ptdp
