// What kind of pipeline each schedule is.
#pragma once

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// Which virtual stages lie on which stage.
[[nodiscard]] StagePlacement placement_of(ScheduleKind schedule);
/// Whether it puts weight gradients off, apart from input gradients.
[[nodiscard]] bool splits_backward(ScheduleKind schedule);

}  // namespace ptdp
