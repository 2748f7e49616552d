// Searches the splits of each heuristic in its order until one fits.
#include "planner/explain/rules_of_thumb.h"

#include <algorithm>

namespace ptdp {
namespace {

/// A split of the model that a rule tries; the first that fits is its choice.
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

/// Returns the splits of a rule: tensor parallelism up to the node, then pipeline stages with the
/// largest tensor parallelism.
std::vector<ModelParallelism> tensor_then_pipeline(const Scenario& scenario) {
  std::vector<ModelParallelism> order;
  const std::vector<int> sizes = sizes_within_node(scenario);
  order.reserve(sizes.size());
  for (const int tp : sizes) {
    order.push_back({.tp = tp, .pp = 1});
  }
  for (const std::int64_t pp : divisors(scenario.job.model.num_layers)) {
    if (pp > 1) {
      order.push_back({.tp = sizes.back(), .pp = static_cast<int>(pp)});
    }
  }
  return order;
}

/// Searches within each split in order, with the most replicas, and returns the best of the first
/// split with something that fits.
std::optional<Candidate> first_that_fits(const Scenario& scenario, SearchOptions options,
                                         const std::vector<ModelParallelism>& order,
                                         IterationTimes& times) {
  if (options.space.cp.is_any()) {
    options.space.cp = IntegerRanges(1);  // none of the rules knows it
  }
  if (options.space.dp_replicate.is_any()) {
    options.space.dp_replicate = IntegerRanges(1);
  }
  const SearchSpace space = options.space;
  options.num_best = 1;
  options.num_threads = 1;
  options.wants_front = false;
  for (const auto& [tp, pp, sequence_parallel] : order) {
    if (!space.tp.contains(tp) || !space.pp.contains(pp)) {
      continue;
    }
    options.space.tp = IntegerRanges(tp);
    options.space.pp = IntegerRanges(pp);
    const std::vector<Replicas> replicas = enumerate_replicas(
        scenario, options.gpus / (std::int64_t{tp} * pp * space.cp.smallest()), space);
    if (replicas.empty()) {
      continue;
    }
    options.space.dp = IntegerRanges(replicas.back().dp);
    options.space.sequence_parallel =
        sequence_parallel ? std::optional(true) : space.sequence_parallel;
    const SearchResult result = search(scenario, options, times);
    if (!result.best.empty()) {
      return result.best.front();
    }
  }
  return std::nullopt;
}

Baseline table_1(const Scenario& scenario, const SearchOptions& options, IterationTimes& times) {
  return {.name = "SC21 table 1",
          .source = "SC21 (arXiv:2104.04473) table 1",
          .choice = first_that_fits(scenario, options, tensor_then_pipeline(scenario), times)};
}

Baseline do_not_over_parallelize(const Scenario& scenario, SearchOptions options,
                                 IterationTimes& times) {
  const StackCapabilities& can_run = scenario.stack.can_run;
  const bool can_shard = std::find(can_run.zero_stages.begin(), can_run.zero_stages.end(), 1) !=
                         can_run.zero_stages.end();
  if (can_shard && options.space.zero_stage.is_any()) {
    options.space.zero_stage = IntegerRanges(1);
  }
  std::vector<ModelParallelism> order = tensor_then_pipeline(scenario);
  if (can_run.sequence_parallel && !options.space.sequence_parallel.has_value()) {
    for (ModelParallelism& split : order) {
      split.sequence_parallel = split.tp > 1;
    }
  }
  return {.name = "don't over-parallelize",
          .source = "NVIDIA Megatron-Core user guide, parallelism strategies",
          .choice = first_that_fits(scenario, options, order, times)};
}

Baseline full_tensor_parallelism(const Scenario& scenario, const SearchOptions& options,
                                 IterationTimes& times) {
  const int tp = sizes_within_node(scenario).back();
  const std::vector<std::int64_t> counts = divisors(scenario.job.model.num_layers);
  std::vector<ModelParallelism> order;
  order.reserve(counts.size());
  for (const std::int64_t pp : counts) {
    order.push_back({.tp = tp, .pp = static_cast<int>(pp)});
  }
  return {.name = "TP in the node, PP until it fits, then DP",
          .source = "SC21 (arXiv:2104.04473) takeaways 1 and 2",
          .choice = first_that_fits(scenario, options, order, times)};
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
