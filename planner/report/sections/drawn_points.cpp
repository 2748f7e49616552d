#include "planner/report/sections/drawn_points.h"

#include <algorithm>
#include <numeric>

namespace ptdp {

std::vector<std::size_t> drawn_points(const std::vector<double>& values) {
  std::vector<std::size_t> places;
  if (values.size() <= kMostCurvePoints) {
    places.resize(values.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    return places;
  }
  const std::size_t runs = kMostCurvePoints / 2;
  const auto place_of = [&](std::size_t run) {
    return values.begin() + static_cast<std::ptrdiff_t>(run * values.size() / runs);
  };
  for (std::size_t run = 0; run < runs; ++run) {
    const auto [least, largest] = std::minmax_element(place_of(run), place_of(run + 1));
    places.push_back(static_cast<std::size_t>(std::min(least, largest) - values.begin()));
    if (least != largest) {
      places.push_back(static_cast<std::size_t>(std::max(least, largest) - values.begin()));
    }
  }
  return places;
}

}  // namespace ptdp
