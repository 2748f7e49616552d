// What a whole step's simulation is given, made from a configuration.
#pragma once

#include <vector>

#include "cost_model/simulation/step_times.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/stage.h"

namespace ptdp {

/// How often the gradients and parameters of a virtual stage are cut, for the passes that put
/// reductions and gathers into a schedule; 0: none.
struct StepBuckets {
  std::vector<int> reductions;  ///< By virtual stage.
  std::vector<int> gathers;     ///< Likewise, where ZeRO shards the optimizer.
};
[[nodiscard]] StepBuckets step_buckets(const PlannedJob& job);

/// How messages of the configuration's schedule run, as the stack's PipelineOverlap says.
[[nodiscard]] MessageMode message_mode(const StackSpec& stack, const ParallelConfig& config);

/// How reductions and gathers run with `pp` stages.
[[nodiscard]] DataMode data_mode(const StackSpec& stack, int pp);

/// Everything that the simulation of a step rests on besides its schedule, from the terms that
/// iteration_cost adds up:
///
///   - durations as virtual_stage_durations has them, and in the weight gradient (m−1)/m of what
///     accumulating the gradients takes: they are added m − 1 times;
///   - one message as the exchange of one, within a node and across nodes as far as the pipeline
///     crosses any, over the network tier that holds both ends: its transfer counts the gathering
///     of scattered messages;
///   - one bucket of each virtual stage's gradients and parameters, the copies into buckets and
///   back
///     included; its latency is that of a bucket of 4 bytes;
///   - the tied embedding, the norm (with fp16 the search for overflows), the optimizer of each
///   rank.
[[nodiscard]] StepTimes step_times(const PlannedJob& job);

}  // namespace ptdp
