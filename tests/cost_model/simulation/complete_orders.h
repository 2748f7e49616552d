// Complete schedules written as text, for tests of the simulator.
#pragma once

#include <string>
#include <vector>

#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// Returns a schedule with one text per rank; each rank has one stage unless `vpp` or `placement`
/// says otherwise.
[[nodiscard]] inline Schedule complete_schedule(
    const std::vector<std::string>& orders, int num_microbatches, int vpp = 1,
    StagePlacement placement = StagePlacement::kLooped) {
  Schedule schedule{.name = "written",
                    .pp = static_cast<int>(orders.size()),
                    .vpp = vpp,
                    .num_microbatches = num_microbatches,
                    .placement = placement};
  for (const std::string& order : orders) {
    schedule.orders.push_back(parse_order(order, "written"));
  }
  return schedule;
}

}  // namespace ptdp
