// Sets up a search for each sharding strategy, and runs them.
#include "planner/answer/strategies.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost_model/contains.h"
#include "planner/explain/nothing_fits.h"
#include "planner/search/ties.h"

namespace ptdp {
namespace {

/// What to search for a strategy: a stack that runs it, and pins. Or why the user's pins leave the
/// strategy out.
struct StrategySearch {
  Scenario scenario;
  SearchOptions options;
  bool is_run_by_stack = true;
  std::string left_out;

  void pin(const char* flag, IntegerRanges SearchSpace::*degree, std::int64_t value) {
    IntegerRanges& range = options.space.*degree;
    if (!range.contains(value)) {
      left_out =
          fmt::format("needs {} {}, which --{} {} rules out", flag, value, flag, range.text());
    }
    range = IntegerRanges(value);
  }

  void pin_from(const char* flag, IntegerRanges SearchSpace::*degree, std::int64_t low) {
    IntegerRanges& range = options.space.*degree;
    const std::optional<IntegerRanges> rest = range.at_least(low);
    if (!rest.has_value()) {
      left_out = fmt::format("needs {} {} or more, which --{} {} rules out", flag, low, flag,
                             range.text());
    }
    range = rest.value_or(IntegerRanges(low));
  }

  /// Lets the stack shard with these ZeRO stages only, as far as the user's pins allow.
  void allow_stages(std::vector<int> stages) {
    const IntegerRanges& pinned = options.space.zero_stage;
    std::erase_if(stages, [&](int stage) { return !pinned.contains(stage); });
    if (stages.empty()) {
      left_out = fmt::format("--zero-stage {} rules it out", pinned.text());
    }
    options.space.zero_stage = {};
    scenario.stack.can_run.zero_stages = std::move(stages);
  }
};

/// Sets up the search for PTD-P. With a pipeline, ZeRO stages 2 and 3 are ZeRO-1 under another name
/// (sharding.h). A stack with only these stages is therefore searched with a pipeline.
void search_ptd_p(StrategySearch& search) {
  StackCapabilities& can_run = search.scenario.stack.can_run;
  std::vector<int> stages;
  for (const int stage : {0, 1}) {
    if (contains(can_run.zero_stages, stage)) {
      stages.push_back(stage);
    }
  }
  const bool has_pipeline = !can_run.schedules.empty();
  if (stages.empty() && has_pipeline) {
    search.pin_from("pp", &SearchSpace::pp, 2);
    search.allow_stages(can_run.zero_stages);
    return;
  }
  search.is_run_by_stack = has_pipeline && !stages.empty();
  can_run.tensor_parallel = true;
  if (!has_pipeline) {
    can_run.schedules = {ScheduleKind::kOneFOneB, ScheduleKind::kInterleaved};
  }
  search.allow_stages(stages.empty() ? std::vector<int>{0, 1} : stages);
}

/// Makes the stack gather and reduce behind compute.
void prefetch(StackSpec& stack) {
  if (stack.data_parallel_overlap == DataParallelOverlap::kNever) {
    stack.data_parallel_overlap = DataParallelOverlap::kSingleStage;
  }
  stack.parameter_gather_overlap = true;
  stack.shards_matrices_apart = stack.all_reduces_shards = false;
  stack.max_reuse_distance = 0.0;
}

void search_fully_sharded(StrategySearch& search, Strategy strategy) {
  StackSpec& stack = search.scenario.stack;
  search.is_run_by_stack =
      contains(stack.can_run.zero_stages, 3) &&
      (strategy != Strategy::kFsdp ||
       (overlaps_reduction(stack, 1) && !stack.shards_matrices_apart && !stack.all_reduces_shards));
  if (!search.is_run_by_stack) {
    prefetch(stack);
  }
  if (strategy == Strategy::kZero3Tensor && !stack.can_run.tensor_parallel) {
    search.is_run_by_stack = false;
    stack.can_run.tensor_parallel = true;
  }
  search.allow_stages({3});
  search.pin("pp", &SearchSpace::pp, 1);
  if (strategy == Strategy::kZero3Tensor) {
    search.pin_from("tp", &SearchSpace::tp, 2);
  } else {
    search.pin("tp", &SearchSpace::tp, 1);
  }
  if (strategy == Strategy::kFsdp) {
    stack.can_run.hybrid_sharding |= !search.is_run_by_stack;
    stack.can_run.kept_weights |= !search.is_run_by_stack;
  } else {
    search.pin("dp-replicate", &SearchSpace::dp_replicate, 1);
    if (!search.options.space.reshard_after_forward.value_or(true)) {
      search.left_out = "--reshard-after-forward off rules it out";
    }
    search.options.space.reshard_after_forward = true;
    search.pin("cp", &SearchSpace::cp, 1);
    search.pin("ep", &SearchSpace::ep, 1);
    search.pin("etp", &SearchSpace::etp, 1);
  }
}

/// Returns in one line why nothing was found. When some candidates failed by memory alone, names
/// the one that misses least; else takes the first line of why_nothing_fits().
std::string reason_of(const StrategySearch& search, const SearchResult& result) {
  if (result.unseen.has_value()) {
    return "nothing was found before the search ended";
  }
  if (result.shortfall.has_value()) {
    return fmt::format("out of memory: {} comes closest, {:.2f} GiB short",
                       to_string(result.shortfall->config),
                       result.shortfall->missing.value() / kGibi);
  }
  const std::string text = why_nothing_fits(search.scenario, search.options, result);
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(first, text.find('\n') - first);
}

}  // namespace

const StrategyResult* StrategyComparison::best() const {
  const StrategyResult* least = nullptr;
  for (const StrategyResult& result : results) {
    if (result.plan.has_value() &&
        (least == nullptr ||
         loss(result.search.best.front(), least->search.best.front(), options.objective) < 0.0)) {
      least = &result;
    }
  }
  return least;
}

StrategyComparison compare_strategies(const Scenario& scenario, const SearchOptions& options,
                                      const CalibrationSource& calibration) {
  check(scenario);
  const PublishedRuns& published = calibration.published();
  StrategyComparison comparison{.scenario = scenario,
                                .options = options,
                                .calibration = calibration.fit(scenario, options.gpus, published),
                                .memory = calibration.memory(scenario, options.gpus, published)};
  comparison.options.num_best = 1;
  comparison.options.wants_front = false;
  for (const StrategyName& name : kStrategies) {
    StrategySearch search{.scenario = scenario, .options = comparison.options};
    if (name.strategy == Strategy::kPtdP) {
      search_ptd_p(search);
    } else {
      search_fully_sharded(search, name.strategy);
    }
    StrategyResult result{.name = name, .is_run_by_stack = search.is_run_by_stack};
    if (search.left_out.empty()) {
      const auto left = static_cast<double>(kStrategies.size() - comparison.results.size());
      search.options.limit = options.limit.share(1.0 / left);
      result.search = ptdp::search(search.scenario, search.options);
      choose_among_ties(search.scenario, search.options, result.search);
    }
    if (!result.search.best.empty()) {
      const Candidate& best = result.search.best.front();
      const ParallelConfig& config = best.config;
      result.plan = make_plan(
          {search.scenario, config, best.costs.get()}, options.gpus, options.memory_headroom,
          comparison.calibration.at(run_point(scenario, config)), comparison.memory);
      result.is_run_by_stack = result.is_run_by_stack && is_run_by_stack(scenario.stack, config);
    } else {
      result.reason = search.left_out.empty() ? reason_of(search, result.search) : search.left_out;
    }
    comparison.results.push_back(std::move(result));
  }
  return comparison;
}

double loss(const StrategyComparison& comparison, const StrategyResult& result) {
  return loss(result.search.best.front(), comparison.best()->search.best.front(),
              comparison.options.objective);
}

}  // namespace ptdp
