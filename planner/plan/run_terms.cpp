// Computes the terms of a pipeline rank from the cost model.
#include "planner/plan/run_terms.h"

#include <algorithm>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/iteration/reduction_and_optimizer.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/iteration/step_builder.h"
#include "cost_model/memory/memory.h"
#include "cost_model/network/collectives.h"
#include "cost_model/pipeline_rank/rank_costs.h"

namespace ptdp {
namespace {

/// Returns how many messages pipeline rank `stage` sends in an iteration, in both directions.
double num_sends(const ParallelConfig& config, int stage, double microbatches) {
  const int last = config.pp * config.vpp - 1;
  double passes = 0.0;
  for_each_virtual_stage(config, stage, [&](int virtual_stage) {
    // In a V the two virtual stages in the middle of the model lie on one rank: no message.
    const bool turns = traits_of(config.schedule).placement == StagePlacement::kV;
    const auto is_sent = [&](int other) {
      const int low = std::min(virtual_stage, other);
      return other >= 0 && other <= last && config.pp > 1 && !(turns && low == config.pp - 1);
    };
    passes += (is_sent(virtual_stage + 1) ? 1.0 : 0.0) + (is_sent(virtual_stage - 1) ? 1.0 : 0.0);
  });
  return passes * microbatches / num_copies(config);
}

/// Returns the time of an iteration's data-parallel reductions and gathers, hidden or not.
Seconds data_parallel_time(const PlannedJob& job, const RankParameters& parameters) {
  const Seconds gathering = gathering_time(job, parameters, /*pieces=*/1.0);
  if (!shards_gradients(job.config())) {
    return reduction_time(job, parameters, /*pieces=*/1.0) + gathering;
  }
  Scenario blocking = job.scenario();
  blocking.stack.data_parallel_overlap = DataParallelOverlap::kNever;
  const ShardingTime each = sharding_time({blocking, job.config()});
  const auto microbatches = static_cast<double>(job.microbatches());
  return microbatches * (each.forward + each.backward) +
         (shards_weights(job.config()) ? Seconds(0.0) : gathering);
}

}  // namespace

Seconds RunTerms::own() const {
  Seconds sum;
  for (const Seconds time : times_) {
    sum += time;
  }
  return sum - (*this)[RunTerm::kBubble];
}

Seconds send_time(const PlannedJob& job) {
  const bool is_scattered = job.config().sequence_parallel || job.stack().scatter_gather;
  const Bytes message(element_bytes(job.stack().precision) *
                      pipeline_elements(job.model(), job.config().micro_batch_size, 1,
                                        (is_scattered ? job.config().tp : 1) * job.config().cp));
  const Placements& groups = job.groups();
  return exchange_latency(job.scenario(), groups) +
         message_time(message, groups.pipeline, job.cluster());
}

RunTerms own_run_terms(const PlannedJob& job, int stage) {
  const auto microbatches = static_cast<double>(job.microbatches());
  const Placements& groups = job.groups();
  const RankCosts costs = rank_costs(job, stage);
  const PassTime passes =
      (costs.forward + costs.backward + costs.recompute + costs.ends) * microbatches;
  const RankParameters parameters = rank_parameters(job.model(), job.config(), stage);
  RunTerms terms;
  terms[RunTerm::kMatmul] = passes.matmul;
  terms[RunTerm::kAttention] = passes.attention;
  terms[RunTerm::kMemoryBound] =
      passes.memory_bound + passes.launch + microbatches * costs.overhead +
      (microbatches - 1.0) * share_accumulated(job.config()) * costs.gradient_accumulation;
  terms[RunTerm::kTensorParallel] = passes.collectives();
  terms[RunTerm::kPipelineMessages] = job.config().pp == 1
                                          ? Seconds(0.0)
                                          : num_sends(job.config(), stage, microbatches) *
                                                exchange_time(job, job.groups(), /*messages=*/1.0);
  if (has_replicas(groups, parameters)) {
    terms[RunTerm::kDataParallel] = data_parallel_time(job, parameters);
  }
  terms[RunTerm::kEmbeddingAllReduce] = tied_reduction_time(job);
  const OptimizerTime optimizer = optimizer_time(job, parameters);
  terms[RunTerm::kOptimizer] = optimizer.norm + optimizer.step;
  return terms;
}

RunTerms predicted_run_terms(const Plan& plan, int stage) {
  const RunTerms uncalibrated = own_run_terms({plan.scenario, plan.config}, stage);
  RunTerms terms;
  for (int term = 0; term < kNumRunTerms; ++term) {
    terms[RunTerm(term)] = uncalibrated[RunTerm(term)] * plan.predicted.calibration_factor;
  }
  const CostBreakdown& cost = plan.predicted.breakdown;
  if (message_mode(plan.scenario.stack, plan.config) == MessageMode::kOverlapped) {
    terms[RunTerm::kPipelineMessages] = cost.pipeline_messages;
  }
  if (overlaps_reduction(plan.scenario.stack, plan.config.pp)) {
    terms[RunTerm::kDataParallel] = cost.data_parallel;
  }
  const Seconds whole = plan.predicted.iteration_time.value;
  terms[RunTerm::kBubble] = beyond_rounding(whole - terms.own(), whole);
  return terms;
}

}  // namespace ptdp
