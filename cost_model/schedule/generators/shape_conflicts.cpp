// Finds what a schedule does not exist for, and which size of a shape is at fault.
#include <algorithm>
#include <string>

#include "cost_model/schedule/generators/generators.h"

namespace ptdp {
namespace {

/// Returns the conflict of a shape that has a memory limit, which only schedules that search can
/// use.
std::optional<ShapeConflict> find_limit_conflict(const ScheduleShape& shape) {
  if (shape.memory_limit) {
    return ShapeConflict{"memory-limit", *shape.memory_limit, "none"};
  }
  return std::nullopt;
}

/// Returns the conflict of a shape with fewer than 2p microbatches: DualPipe and DualPipeV fill the
/// pipeline twice.
std::optional<ShapeConflict> needs_two_fillings(const ScheduleShape& shape) {
  if (shape.num_microbatches < 2 * std::int64_t{shape.pp}) {
    return ShapeConflict{"microbatches", shape.num_microbatches, "at least 2 pp"};
  }
  return std::nullopt;
}

bool is_group_size(int size, int pp, int num_microbatches) {
  const int rest = num_microbatches % size;
  return size >= pp && (rest == 0 || rest >= pp);
}

}  // namespace

std::optional<ShapeConflict> find_group_conflict(const ScheduleShape& shape) {
  if (shape.microbatch_group_size != 0) {
    return ShapeConflict{"microbatch-group-size", shape.microbatch_group_size, "none"};
  }
  return find_limit_conflict(shape);
}

std::optional<ShapeConflict> needs_one_stage(const ScheduleShape& shape) {
  if (shape.vpp != 1) {
    return ShapeConflict{"vpp", shape.vpp, "1"};
  }
  return find_group_conflict(shape);
}

std::optional<ShapeConflict> find_pipedream_2bw_conflict(const ScheduleShape& shape) {
  if (auto conflict = needs_one_stage(shape)) {
    return conflict;
  }
  if (shape.num_microbatches < shape.pp) {
    return ShapeConflict{"microbatches", shape.num_microbatches, "at least pp"};
  }
  return std::nullopt;
}

std::optional<ShapeConflict> find_zb_auto_conflict(const ScheduleShape& shape) {
  ScheduleShape sizes = shape;
  sizes.memory_limit.reset();
  if (auto conflict = needs_one_stage(sizes)) {
    return conflict;
  }
  if (shape.memory_limit.value_or(1) < 1) {
    return ShapeConflict{"memory-limit", *shape.memory_limit,
                         "at least 1, what a microbatch takes"};
  }
  const int entries = static_cast<int>(shape.ticks.size());
  if (entries > 1 && entries != shape.pp) {
    return ShapeConflict{"durations", entries, "one for all stages or one for each"};
  }
  if (shape.message_ticks < 0 || shape.message_ticks > kMostTicks) {
    return ShapeConflict{"durations", shape.message_ticks, "message ticks from 0 to 1e9"};
  }
  for (const StageTicks& stage : shape.ticks) {
    for (const int ticks : {stage.forward, stage.input_gradient, stage.weight_gradient}) {
      if (ticks < 1 || ticks > kMostTicks) {
        return ShapeConflict{"durations", ticks, "ticks from 1 to 1e9"};
      }
    }
  }
  return std::nullopt;
}

std::optional<ShapeConflict> needs_two_stages(const ScheduleShape& shape) {
  if (shape.vpp != 2) {
    return ShapeConflict{"vpp", shape.vpp, "2"};
  }
  return find_group_conflict(shape);
}

std::optional<ShapeConflict> find_dualpipe_conflict(const ScheduleShape& shape) {
  if (auto conflict = needs_one_stage(shape)) {
    return conflict;
  }
  if (shape.pp % 2 != 0) {
    return ShapeConflict{"pp", shape.pp, "an even number"};
  }
  if (shape.num_microbatches % 2 != 0) {
    return ShapeConflict{"microbatches", shape.num_microbatches, "an even number"};
  }
  return needs_two_fillings(shape);
}

std::optional<ShapeConflict> find_dualpipev_conflict(const ScheduleShape& shape) {
  const auto conflict = needs_two_stages(shape);
  return conflict.has_value() ? conflict : needs_two_fillings(shape);
}

std::optional<ShapeConflict> find_interleaved_conflict(const ScheduleShape& shape) {
  if (shape.vpp < 2) {
    return ShapeConflict{"vpp", shape.vpp, "at least 2 (1f1b has one stage per rank)"};
  }
  if (auto conflict = find_limit_conflict(shape)) {
    return conflict;
  }
  const int size = shape.microbatch_group_size;
  const int microbatches = shape.num_microbatches;
  if (size == 0 || (size == microbatches && microbatches < shape.pp)) {
    return std::nullopt;
  }
  if (size > microbatches || !is_group_size(size, shape.pp, microbatches)) {
    return ShapeConflict{"microbatch-group-size", size,
                         "at least pp and at most the microbatches, with a remainder of 0 or "
                         "at least pp, such as " +
                             std::to_string(default_microbatch_group_size(shape.pp, microbatches))};
  }
  return std::nullopt;
}

int default_microbatch_group_size(int pp, int num_microbatches) {
  int size = std::min(pp, num_microbatches);
  // The loop ends at the latest with one group of all microbatches.
  while (size < num_microbatches && !is_group_size(size, pp, num_microbatches)) {
    ++size;
  }
  return size;
}

}  // namespace ptdp
