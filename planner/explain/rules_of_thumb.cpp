// Searches the splits of each heuristic in its order until one fits.
#include "planner/explain/rules_of_thumb.h"

#include <algorithm>
#include <utility>

#include "cost_model/contains.h"

namespace ptdp {
namespace {

/// A split of the model that a rule tries.
struct ModelParallelism {
  int tp = 1;
  int pp = 1;
  bool sequence_parallel = false;  ///< Whether the rule insists on sequence parallelism.
};

bool divides_heads(const Scenario& scenario, int tp) {
  return scenario.job.model.num_attention_heads % tp == 0;
}

/// Returns the tensor-parallel sizes within a node that the heads allow, ascending.
std::vector<int> sizes_within_node(const Scenario& scenario) {
  std::vector<int> sizes;
  for (int tp = 1; tp <= scenario.cluster.gpus_per_node; ++tp) {
    if (scenario.cluster.gpus_per_node % tp == 0 && divides_heads(scenario, tp)) {
      sizes.push_back(tp);
    }
  }
  return sizes;
}

/// Returns the numbers of stages that the layers and the stack allow, ascending.
std::vector<int> numbers_of_stages(const Scenario& scenario) {
  const int num_layers = scenario.job.model.num_layers;
  std::vector<int> numbers;
  for (int pp = 1; pp <= num_layers; ++pp) {
    if (num_layers % pp == 0 || scenario.stack.can_run.uneven_layers) {
      numbers.push_back(pp);
    }
  }
  return numbers;
}

/// Returns the splits of a rule: tensor parallelism up to the node, then pipeline stages with the
/// largest tensor parallelism.
std::vector<ModelParallelism> tensor_then_pipeline(const Scenario& scenario) {
  std::vector<ModelParallelism> order;
  const std::vector<int> sizes = sizes_within_node(scenario);
  order.reserve(sizes.size());
  for (const int tp : sizes) {
    order.push_back({.tp = tp, .pp = 1});
  }
  for (const int pp : numbers_of_stages(scenario)) {
    if (pp > 1) {
      order.push_back({.tp = sizes.back(), .pp = pp});
    }
  }
  return order;
}

/// A heuristic: what it tries, in its order.
struct Rule {
  std::string name;
  std::string source;
  std::vector<ModelParallelism> splits;
  std::vector<Recompute> recompute;  ///< Kinds of recomputation that each split is tried with.
};

/// Returns the pins that a kind of recomputation after the other puts in place, in the rule's
/// order. What the user pins and what the stack can run come first: where nothing of the rule is
/// left by them, the only entry leaves recomputation as they have it.
std::vector<std::vector<Recompute>> recomputation_pins(const Rule& rule, const Scenario& scenario,
                                                       const SearchSpace& space) {
  if (space.recompute_modules.has_value() || space.recompute_num_layers.has_value()) {
    return {space.recompute};
  }
  const std::vector<Recompute>& allowed =
      space.recompute.empty() ? scenario.stack.can_run.recompute : space.recompute;
  std::vector<std::vector<Recompute>> pins;
  for (const Recompute kind : rule.recompute) {
    if (contains(allowed, kind)) {
      pins.push_back({kind});
    }
  }
  if (pins.empty()) {
    pins.push_back(space.recompute);
  }
  return pins;
}

/// A split of a rule with its number of replicas.
struct ReplicatedSplit {
  ModelParallelism split;
  int dp = 1;
};

/// Returns the splits that the pins allow, each with the most replicas that the batch and the pins
/// allow: in the rule's order first those that use all GPUs, then the others.
std::vector<ReplicatedSplit> replicated(const Rule& rule, const Scenario& scenario,
                                        const SearchOptions& options) {
  const SearchSpace& space = options.space;
  std::vector<ReplicatedSplit> splits;
  for (const ModelParallelism& split : rule.splits) {
    if (!space.tp.contains(split.tp) || !space.pp.contains(split.pp)) {
      continue;
    }
    const std::int64_t of_replica = std::int64_t{split.tp} * split.pp * space.cp.smallest();
    const std::vector<Replicas> replicas =
        enumerate_replicas(scenario, options.gpus / of_replica, space);
    if (!replicas.empty()) {
      splits.push_back({split, replicas.back().dp});
    }
  }
  std::stable_partition(splits.begin(), splits.end(), [&](const ReplicatedSplit& each) {
    return std::int64_t{each.split.tp} * each.split.pp * space.cp.smallest() * each.dp ==
           options.gpus;
  });
  return splits;
}

/// Searches within each split in order, and returns the best of the first with something that fits.
Baseline follow(const Rule& rule, const Scenario& scenario, SearchOptions options,
                IterationTimes& times) {
  if (options.space.cp.is_any()) {
    options.space.cp = IntegerRanges(1);  // none of the rules knows it
  }
  if (options.space.dp_replicate.is_any()) {
    options.space.dp_replicate = IntegerRanges(1);
  }
  const std::vector<int>& stages = scenario.stack.can_run.zero_stages;
  const auto is_sharding = [](int stage) { return stage > 1; };
  if (options.space.zero_stage.is_any() && std::any_of(stages.begin(), stages.end(), is_sharding) &&
      !std::all_of(stages.begin(), stages.end(), is_sharding)) {
    options.space.zero_stage = IntegerRanges::parse("0:1", 0, 1, "");  // nor this
  }
  options = options.for_best_alone();
  options.num_threads = 1;
  Baseline baseline{.name = rule.name, .source = rule.source, .choice = std::nullopt};
  SearchOptions within = options;
  const auto kinds = recomputation_pins(rule, scenario, options.space);
  for (const auto& [split, dp] : replicated(rule, scenario, options)) {
    within.space.tp = IntegerRanges(split.tp);
    within.space.pp = IntegerRanges(split.pp);
    within.space.dp = IntegerRanges(dp);
    within.space.sequence_parallel =
        split.sequence_parallel ? std::optional(true) : options.space.sequence_parallel;
    for (const std::vector<Recompute>& recompute : kinds) {
      within.space.recompute = recompute;
      const SearchResult result = search(scenario, within, times);
      if (!result.best.empty()) {
        baseline.choice = result.best.front();
        return baseline;
      }
    }
  }
  return baseline;
}

Baseline table_1(const Scenario& scenario, const SearchOptions& options, IterationTimes& times) {
  return follow({.name = "SC21 table 1",
                 .source = "SC21 (arXiv:2104.04473) table 1",
                 .splits = tensor_then_pipeline(scenario),
                 .recompute = {Recompute::kFull}},
                scenario, options, times);
}

Baseline do_not_over_parallelize(const Scenario& scenario, SearchOptions options,
                                 IterationTimes& times) {
  const StackCapabilities& can_run = scenario.stack.can_run;
  if (contains(can_run.zero_stages, 1) && options.space.zero_stage.is_any()) {
    options.space.zero_stage = IntegerRanges(1);
  }
  std::vector<ModelParallelism> splits = tensor_then_pipeline(scenario);
  if (can_run.sequence_parallel && !options.space.sequence_parallel.has_value()) {
    for (ModelParallelism& split : splits) {
      split.sequence_parallel = split.tp > 1;
    }
  }
  const Recompute light =
      contains(can_run.recompute, Recompute::kSelective) ? Recompute::kSelective : Recompute::kNone;
  return follow({.name = "don't over-parallelize",
                 .source = "NVIDIA Megatron-Core user guide, parallelism strategies",
                 .splits = std::move(splits),
                 .recompute = {light, Recompute::kFull}},
                scenario, options, times);
}

Baseline full_tensor_parallelism(const Scenario& scenario, const SearchOptions& options,
                                 IterationTimes& times) {
  const int tp = sizes_within_node(scenario).back();
  std::vector<ModelParallelism> splits;
  for (const int pp : numbers_of_stages(scenario)) {
    splits.push_back({.tp = tp, .pp = pp});
  }
  return follow({.name = "TP in the node, PP until it fits, then DP",
                 .source = "SC21 (arXiv:2104.04473) takeaways 1 and 2",
                 .splits = std::move(splits),
                 .recompute = {Recompute::kFull}},
                scenario, options, times);
}

}  // namespace

std::vector<Baseline> rules_of_thumb(const Scenario& scenario, const SearchOptions& options,
                                     IterationTimes& times) {
  return {table_1(scenario, options, times), do_not_over_parallelize(scenario, options, times),
          full_tensor_parallelism(scenario, options, times)};
}

std::vector<Baseline> rules_of_thumb(const Scenario& scenario, const SearchOptions& options) {
  IterationTimes times;
  return rules_of_thumb(scenario, options, times);
}

}  // namespace ptdp
