#include "cost_model/schedule/validator/schedule_fault.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ptdp {
namespace {

constexpr std::size_t kActionsAround = 4;

}  // namespace

std::string at(const Schedule& schedule, Place place) {
  return "rank " + std::to_string(place.rank) + ", action " + std::to_string(place.position) +
         ", " + to_string(schedule.orders[place.rank][place.position]);
}

std::string grid_line(const Schedule& schedule, Place place, bool is_marked) {
  const std::vector<Action>& order = schedule.orders[place.rank];
  const std::size_t position = place.position;
  std::string line = "rank " + std::to_string(place.rank) + ":";
  const std::size_t begin = position - std::min(position, kActionsAround);
  const std::size_t end = std::min(position + kActionsAround + 1, order.size());
  line += begin > 0 ? " ..." : "";
  for (std::size_t i = begin; i < end; ++i) {
    const bool is_offence = is_marked && i == position;
    line += is_offence ? " >" + to_string(order[i]) + '<' : ' ' + to_string(order[i]);
  }
  line += end < order.size() ? " ..." : "";
  line += is_marked && position >= order.size() ? " ><" : "";
  return line + (is_marked ? "  <-- here\n" : "\n");
}

ScheduleFault fault_at(const Schedule& schedule, Place place, std::string what) {
  ScheduleFault fault{.what = std::move(what)};
  const int first = std::max(place.rank - kGridRanksAround, 0);
  const int last =
      std::min(place.rank + kGridRanksAround, static_cast<int>(schedule.orders.size()) - 1);
  for (int rank = first; rank <= last; ++rank) {
    fault.grid += grid_line(schedule, {rank, place.position}, rank == place.rank);
  }
  return fault;
}

}  // namespace ptdp
