// Does a schedule come to its end?
#pragma once

#include <optional>

#include "cost_model/schedule/schedule.h"
#include "cost_model/schedule/schedule_fault.h"

namespace ptdp {

/// Where a schedule stands still if every rank works through its list in order and messages wait
/// for their receiver: the first rank that is stuck, and where those around it stand. Every action
/// must be in range and on its rank.
[[nodiscard]] std::optional<ScheduleFault> find_deadlock(const Schedule& schedule);

}  // namespace ptdp
