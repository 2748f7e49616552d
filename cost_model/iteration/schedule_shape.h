// What the schedule of a configuration is made for.
#pragma once

#include <cstdint>
#include <span>

#include "cost_model/inputs/scenario.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/simulation/step_times.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/stage.h"

namespace ptdp {

/// Ranks, virtual stages and microbatches of a configuration, and for zb-auto its memory limit: all
/// that decides whether its schedule exists and how much a rank holds.
[[nodiscard]] ScheduleShape schedule_sizes(const ParallelConfig& config,
                                           std::int64_t num_microbatches);

/// The same with what zb-auto is searched for: the stages' durations and the time of a message, in
/// ticks that suit these durations, and whether ranks go on as soon as they are done themselves
/// (the stack's optimizer_post_validation), so that in-span times count.
[[nodiscard]] ScheduleShape schedule_shape(const ParallelConfig& config,
                                           std::int64_t num_microbatches,
                                           std::span<const StageDurations> durations,
                                           Seconds exchange, const StackSpec& stack);

/// The same of virtual_stage_durations and the exchange of one message between nodes, as far as the
/// pipeline crosses any. Equal arguments give equal shapes: the recipe of a configuration.
[[nodiscard]] ScheduleShape schedule_shape(const PlannedJob& job);

}  // namespace ptdp
