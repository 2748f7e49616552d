// What the generators do not exist for.
#pragma once

#include <optional>

#include "cost_model/schedule/generators/generators.h"

namespace ptdp {

/// One stage per rank.
[[nodiscard]] std::optional<ShapeConflict> needs_one_stage(const ScheduleShape& shape);
/// Two stages per rank, in a V.
[[nodiscard]] std::optional<ShapeConflict> needs_two_stages(const ScheduleShape& shape);
/// Any number of stages, but neither a group size nor a memory limit.
[[nodiscard]] std::optional<ShapeConflict> find_group_conflict(const ScheduleShape& shape);
/// Even sizes, one stage per rank, the pipeline filled from both ends twice.
[[nodiscard]] std::optional<ShapeConflict> find_dualpipe_conflict(const ScheduleShape& shape);
/// Two stages per rank, the pipeline filled twice.
[[nodiscard]] std::optional<ShapeConflict> find_dualpipev_conflict(const ScheduleShape& shape);
/// At least two stages per rank and a group size that leaves no small rest.
[[nodiscard]] std::optional<ShapeConflict> find_interleaved_conflict(const ScheduleShape& shape);
/// Gradients of as many microbatches as there are ranks, so that two versions of weights do.
[[nodiscard]] std::optional<ShapeConflict> find_pipedream_2bw_conflict(const ScheduleShape& shape);
/// One stage per rank, durations of every stage, and memory for a microbatch.
[[nodiscard]] std::optional<ShapeConflict> find_zb_auto_conflict(const ScheduleShape& shape);

}  // namespace ptdp
