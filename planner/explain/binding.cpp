// Finds the largest parts of a plan's memory and time.
#include "planner/explain/binding.h"

#include <algorithm>
#include <array>

#include "cost_model/iteration/flops.h"

namespace ptdp {
namespace {

bool is_product(std::string_view term) {
  return term == "matmul" || term == "attention" || term == "embedding_and_logits";
}

void keep_larger(BoundTime& largest, std::string_view term, Seconds time) {
  if (time > largest.time) {
    largest = {term, time};
  }
}

void add_times(Binding& binding, const PlannedJob& job, const CostBreakdown& cost) {
  Seconds products;
  BoundTime link;
  for (const CostTerm& term : kCostTerms) {
    const Seconds time = cost.*term.time;
    if (is_product(term.name)) {
      products += time;
      continue;
    }
    keep_larger(binding.largest, term.name, time);
    if (placement_of(term.name, job)) {
      keep_larger(link, term.name, time);
    }
  }
  keep_larger(binding.largest, kBelowPeak, products - binding.at_peak);
  if (link.time > Seconds(0.0)) {
    const bool is_within = placement_of(link.term, job)->is_within_node();
    binding.link = BoundLink{link, is_within ? Link::kNode : Link::kNetwork};
  }
}

}  // namespace

std::optional<GroupPlacement> placement_of(std::string_view term, const PlannedJob& job) {
  if (term == "tensor_parallel") {
    return job.groups().tensor;
  }
  if (term == "context_parallel") {
    return place_group(RankGrid(job.config()), Dimension::kContext, job.cluster());
  }
  if (term == "expert_parallel") {
    return place_expert_group(job.config(), ExpertDimension::kTensorAndExpert, job.cluster());
  }
  if (term == "data_parallel") {
    return job.groups().data;
  }
  if (term == "pipeline_messages" || term == "embedding_all_reduce") {
    return job.groups().pipeline;
  }
  return std::nullopt;
}

Binding find_binding(const PlannedJob& job, const CostBreakdown& cost,
                     const std::vector<MemoryBreakdown>& stages, Bytes usable) {
  const ParallelConfig& config = job.config();
  Binding binding{.rank = heaviest_of(stages), .bubble = cost.bubble};
  const MemoryBreakdown& memory = stages[static_cast<std::size_t>(binding.rank)];
  const MemoryTerm& largest = *std::ranges::max_element(
      kMemoryTerms, {}, [&](const MemoryTerm& term) { return memory.*term.size; });
  binding.category = largest.name;
  binding.of_category = memory.*largest.size;
  binding.free = usable - memory.total();
  binding.at_peak = causal_model_flops(job.model(), job.scenario().job.global_batch_size) /
                    matmul_peak(job.scenario()) * (1.0 / static_cast<double>(config.world_size()));
  binding.bubble_formula = (config.pp - 1.0) / config.vpp / static_cast<double>(job.microbatches());
  add_times(binding, job, cost);
  return binding;
}

}  // namespace ptdp
