#include "cost_model/schedule/generators/generators.h"

#include <algorithm>

namespace ptdp {

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  names.reserve(kSchedules.size());
  for (const ScheduleTraits& schedule : kSchedules) {
    names.emplace_back(schedule.name);
  }
  return names;
}

Schedule without_actions(ScheduleKind kind, const ScheduleShape& shape) {
  const ScheduleTraits& traits = traits_of(kind);
  return {.name = std::string(traits.name),
          .pp = shape.pp,
          .vpp = std::clamp(shape.vpp, traits.fewest_chunks, traits.most_chunks),
          .num_microbatches = shape.num_microbatches,
          .placement = traits.placement,
          .orders = std::vector<std::vector<Action>>(shape.pp)};
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
