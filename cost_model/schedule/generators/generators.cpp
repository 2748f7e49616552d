#include "cost_model/schedule/generators/generators.h"

namespace ptdp {

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  names.reserve(kSchedules.size());
  for (const ScheduleTraits& schedule : kSchedules) {
    names.emplace_back(schedule.name);
  }
  return names;
}

const ScheduleTraits* find_schedule(std::string_view name) {
  for (const ScheduleTraits& schedule : kSchedules) {
    if (schedule.name == name) {
      return &schedule;
    }
  }
  return nullptr;
}

}  // namespace ptdp
