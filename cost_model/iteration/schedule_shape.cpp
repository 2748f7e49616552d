// Turns durations into ticks for searched schedules; other schedules need sizes alone.
#include "cost_model/iteration/schedule_shape.h"

#include <algorithm>
#include <vector>

#include "cost_model/iteration/reduction_and_optimizer.h"
#include "cost_model/iteration/virtual_stage_durations.h"

namespace ptdp {

ScheduleShape schedule_sizes(const ParallelConfig& config, std::int64_t num_microbatches) {
  ScheduleShape shape{
      .pp = config.pp, .vpp = config.vpp, .num_microbatches = static_cast<int>(num_microbatches)};
  if (traits_of(config.schedule).is_searched) {
    shape.memory_limit = config.memory_limit.value_or(config.pp);
  }
  return shape;
}

ScheduleShape schedule_shape(const ParallelConfig& config, std::int64_t num_microbatches,
                             std::span<const StageDurations> durations, Seconds exchange,
                             const StackSpec& stack) {
  ScheduleShape shape = schedule_sizes(config, num_microbatches);
  if (!traits_of(config.schedule).is_searched) {
    return shape;
  }
  std::vector<Seconds> passes;
  passes.reserve(3 * durations.size());
  for (const StageDurations& stage : durations) {
    passes.insert(passes.end(), {stage.forward, stage.input_gradient, stage.weight_gradient});
  }
  const Seconds tick = suitable_tick(passes);
  shape.ticks.reserve(durations.size());
  for (const StageDurations& stage : durations) {
    shape.ticks.push_back({.forward = in_ticks(stage.forward, tick),
                           .input_gradient = in_ticks(stage.input_gradient, tick),
                           .weight_gradient = in_ticks(stage.weight_gradient, tick)});
  }
  shape.message_ticks = in_ticks(exchange, tick, 0);
  shape.shortens_spans = stack.optimizer_post_validation;
  return shape;
}

ScheduleShape schedule_shape(const PlannedJob& job) {
  const std::int64_t microbatches = job.microbatches();
  if (!traits_of(job.config().schedule).is_searched) {
    return schedule_sizes(job.config(), microbatches);
  }
  return schedule_shape(job.config(), microbatches, virtual_stage_durations(job),
                        exchange_time(job, job.groups(), /*messages=*/1.0), job.stack());
}

}  // namespace ptdp
