// Which points of a long curve are drawn.
#pragma once

#include <cstddef>
#include <vector>

namespace ptdp {

/// Most points of a curve.
inline constexpr std::size_t kMostCurvePoints = 2000;

/// Returns the places of the values to draw, in order: all, or of many the least and the largest of
/// each of equally long runs.
[[nodiscard]] std::vector<std::size_t> drawn_points(const std::vector<double>& values);

}  // namespace ptdp
