// Finds deadlocks: does a schedule come to its end?
#pragma once

#include <optional>

#include "cost_model/schedule/lane.h"
#include "cost_model/schedule/schedule.h"
#include "cost_model/schedule/validator/schedule_fault.h"

namespace ptdp {

/// Returns where a compute-only schedule stands still, or nullopt when it comes to its end. Every
/// rank works through its list in order, and messages wait for their receiver. The fault is at the
/// first rank that is stuck, and shows where those around it stand. Every action must be in range
/// and on its rank.
[[nodiscard]] std::optional<ScheduleFault> find_deadlock(const Schedule& schedule);

/// Returns where a complete schedule stands still, or nullopt when it comes to its end. Every lane
/// of every rank works through its actions in order. A message, the tied embedding's reduction and
/// the norm wait until all that take part are at it. The fault is at the first rank that is stuck,
/// at a message if one is. The schedule must have all its messages, and every rank a list whose own
/// order find_fault() accepts.
[[nodiscard]] std::optional<ScheduleFault> find_lane_deadlock(const Schedule& schedule,
                                                              MessageMode messages);

}  // namespace ptdp
