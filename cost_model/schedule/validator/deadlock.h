// Does a schedule come to its end?
#pragma once

#include <optional>

#include "cost_model/schedule/lane.h"
#include "cost_model/schedule/schedule.h"
#include "cost_model/schedule/validator/schedule_fault.h"

namespace ptdp {

/// Where a schedule of compute stands still if every rank works through its list in order and
/// messages wait for their receiver: the first rank that is stuck, and where those around it stand.
/// Every action must be in range and on its rank.
[[nodiscard]] std::optional<ScheduleFault> find_deadlock(const Schedule& schedule);

/// Where a complete schedule stands still if every lane of every rank works through its actions in
/// order and a message, the tied embedding's reduction and the norm wait until all that take part
/// are at it: the first rank that is stuck, at a message if it is at one. The schedule must have
/// all its messages and every list an order of its own that find_fault accepts.
[[nodiscard]] std::optional<ScheduleFault> find_lane_deadlock(const Schedule& schedule,
                                                              MessageMode messages);

}  // namespace ptdp
