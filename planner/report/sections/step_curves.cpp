#include "planner/report/sections/step_curves.h"

#include <algorithm>
#include <utility>

#include "cost_model/measured/quantile.h"
#include "planner/report/sections/drawn_points.h"

namespace ptdp {
namespace {

// Beyond so many times the median a warm-up would leave the rest no height.
constexpr double kManyTimes = 4.0;

}  // namespace

CurvesView curve_over_steps(Axis axis, const StepValues& values,
                            std::optional<double> first_steady) {
  Curve curve{.name = axis.name};
  for (const std::size_t place : drawn_points(values.values)) {
    curve.x.push_back(values.steps[place]);
    curve.y.push_back(values.values[place]);
  }
  CurvesView view{.x = {.name = "iteration"}, .y = std::move(axis), .curves = {std::move(curve)}};
  if (first_steady) {
    view.marks.push_back({"steady state from", *first_steady});
  }
  return view;
}

CurvesView times_over_steps(const StepValues& seconds,
                            const std::optional<Estimate<Seconds>>& predicted,
                            std::optional<double> first_steady) {
  const double longest = std::ranges::max(seconds.values);
  CurvesView view = curve_over_steps(
      {.name = "time", .unit = "s", .is_log = longest > kManyTimes * median(seconds.values)},
      seconds, first_steady);
  view.curves.front().name = "measured";
  if (predicted) {
    const auto everywhere = [](Seconds time) { return std::vector(2, time.value()); };
    view.curves.push_back({.name = "predicted, with its 90 % interval",
                           .x = {seconds.steps.front(), seconds.steps.back()},
                           .y = everywhere(predicted->value),
                           .low = everywhere(predicted->low),
                           .high = everywhere(predicted->high)});
  }
  return view;
}

}  // namespace ptdp
