// Every schedule that a search may look at.
#pragma once

#include <vector>

#include "cost_model/schedule/generators/generators.h"

namespace ptdp {

/// Returns all schedules that flush the pipeline at the end of a step.
inline std::vector<ScheduleKind> synchronous_schedules() {
  std::vector<ScheduleKind> schedules;
  for (const NamedValue<ScheduleKind>& schedule : kScheduleNames) {
    if (traits_of(schedule.value).is_synchronous) {
      schedules.push_back(schedule.value);
    }
  }
  return schedules;
}

}  // namespace ptdp
