// Makes what a whole step's simulation is given, from a configuration.
#pragma once

#include <vector>

#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/pipeline_rank/rank_parameters.h"
#include "cost_model/simulation/step_times.h"

namespace ptdp {

/// Number of buckets into which gradients and parameters of each virtual stage are cut. The passes
/// that put reductions and gathers into a schedule use it; 0 means none.
struct StepBuckets {
  std::vector<int> reductions;  ///< Buckets of gradients, by virtual stage.
  /// Buckets of parameters, by virtual stage, where ZeRO shards the optimizer.
  std::vector<int> gathers;
};
/// Returns how gradients and parameters are cut into buckets.
[[nodiscard]] StepBuckets step_buckets(const PlannedJob& job);
/// Returns how gradients and parameters of any layers are cut into buckets. `held` are the
/// parameters that a GPU has of each virtual stage.
[[nodiscard]] StepBuckets step_buckets(const PlannedJob& job,
                                       const std::vector<RankParameters>& held);

/// Returns how messages of the configuration's schedule run, as the stack's PipelineOverlap says.
[[nodiscard]] MessageMode message_mode(const StackSpec& stack, const ParallelConfig& config);

/// Returns how reductions and gathers run with `pp` pipeline ranks.
[[nodiscard]] DataMode data_mode(const StackSpec& stack, int pp);

/// Computes everything that the simulation of a step rests on besides its schedule. The terms are
/// those that iteration_cost() adds up:
///
///   - durations as virtual_stage_durations() has them. The weight gradient has (m−1)/m of what
///     accumulating the gradients takes: they are added m − 1 times;
///   - one message as the exchange of one, within a node and, if the pipeline crosses nodes, across
///     them. It goes over the network tier that holds both ends. Its transfer counts the gathering
///     of scattered messages;
///   - one bucket of each virtual stage's gradients and parameters, the copies into buckets and
///     back included. Its latency is that of a bucket of 4 bytes;
///   - the tied embedding, the norm (with fp16 the search for overflows), and the optimizer of each
///     rank.
[[nodiscard]] StepTimes step_times(const PlannedJob& job);

/// What a pipeline of any layers consists of.
struct StageLoads {
  std::vector<StageDurations> passes;  ///< All that passes take, by virtual stage.
  std::vector<RankParameters> held;    ///< Parameters on a GPU, by virtual stage.
  /// What a GPU sends to the next pipeline rank for a microbatch, and gets back as gradients, by
  /// pipeline rank. The last rank sends to the first.
  std::vector<Bytes> sent;
};
/// Computes what the simulation of a step of any layers rests on besides its schedule. Only
/// degrees, cluster, stack and batch of the job count: of its model nothing does, if embeddings are
/// untied. The pipeline must be looped.
[[nodiscard]] StepTimes step_times(const PlannedJob& job, const StageLoads& loads);

}  // namespace ptdp
