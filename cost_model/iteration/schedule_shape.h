// Makes the shape for which a configuration's schedule is generated.
#pragma once

#include <cstdint>
#include <span>

#include "cost_model/inputs/scenario.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/simulation/step_times.h"

namespace ptdp {

/// Returns the ranks, virtual stages and microbatches of a configuration, and for zb-auto its
/// memory limit. These decide whether its schedule exists and how much a rank holds.
[[nodiscard]] ScheduleShape schedule_sizes(const ParallelConfig& config,
                                           std::int64_t num_microbatches);

/// Returns schedule_sizes(), and for zb-auto also what its search needs. These are the durations of
/// the virtual stages and the time of a message, in ticks that suit these durations. With the
/// stack's optimizer_post_validation ranks go on as soon as they are done themselves, so that
/// in-span times count.
[[nodiscard]] ScheduleShape schedule_shape(const ParallelConfig& config,
                                           std::int64_t num_microbatches,
                                           std::span<const StageDurations> durations,
                                           Seconds exchange, const StackSpec& stack);

/// Returns the shape of the job's schedule, from virtual_stage_durations() and the exchange of one
/// message, between nodes if the pipeline crosses any. Equal arguments give equal shapes: the
/// recipe of a configuration.
[[nodiscard]] ScheduleShape schedule_shape(const PlannedJob& job);

}  // namespace ptdp
