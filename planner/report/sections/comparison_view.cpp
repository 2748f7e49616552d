#include "planner/report/sections/comparison_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "planner/formatting.h"

namespace ptdp {

ScatterView comparison_view(const ComparedQuantity& quantity,
                            const std::vector<ComparedGroup>& groups,
                            const RelativeInterval& interval) {
  ScatterView view{
      .x = {.name = quantity.name + ", measured", .unit = quantity.unit, .is_log = true},
      .y = {.name = quantity.name + ", predicted", .unit = quantity.unit, .is_log = true}};
  double least = std::numeric_limits<double>::infinity();
  double largest = 0.0;
  for (const ComparedGroup& group : groups) {
    ScatterGroup points{.name = group.name};
    for (const ComparedValue& value : group.values) {
      least = std::min({least, value.measured, value.predicted});
      largest = std::max({largest, value.measured, value.predicted});
      const std::string error = signed_percent(value.predicted / value.measured - 1.0);
      points.points.push_back({.x = value.measured,
                               .y = value.predicted,
                               .name = value.name,
                               .note = value.note.empty() ? error : error + ", " + value.note});
    }
    view.groups.push_back(std::move(points));
  }
  if (largest > 0.0) {
    Curve diagonal{.name = "equal", .x = {least, largest}, .y = {least, largest}};
    if (interval != RelativeInterval()) {
      diagonal.name = "equal, with the 90 % interval";
      diagonal.low = {least / interval.high, largest / interval.high};
      diagonal.high = {least / interval.low, largest / interval.low};
    }
    view.curves.push_back(std::move(diagonal));
  }
  return view;
}

}  // namespace ptdp
