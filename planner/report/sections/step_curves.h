// Curves over the iterations of a run: how long each takes, and what it prints.
#pragma once

#include <optional>
#include <vector>

#include "planner/plan/prediction.h"
#include "planner/report/report.h"

namespace ptdp {

/// A number for each of some iterations, by their numbers.
struct StepValues {
  std::vector<double> steps;
  std::vector<double> values;  ///< As many as `steps`.
};

/// Returns a curve of the values over their iterations, drawn_points() of them. `first_steady`, the
/// first iteration of the steady state, is marked where it is known.
[[nodiscard]] CurvesView curve_over_steps(Axis axis, const StepValues& values,
                                          std::optional<double> first_steady = std::nullopt);

/// Returns times of iterations [s] as a curve, beside the predicted time with its interval where
/// that is known. The axis is logarithmic where the longest takes many times the median.
[[nodiscard]] CurvesView times_over_steps(const StepValues& seconds,
                                          const std::optional<Estimate<Seconds>>& predicted,
                                          std::optional<double> first_steady);

}  // namespace ptdp
