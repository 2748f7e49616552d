#include "cost_model/calibration/calibration.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cost_model/calibration/quantile.h"

namespace ptdp {
namespace {

/// Logarithms of measured/predicted, in order of the runs.
std::vector<double> log_ratios(std::span<const CalibrationRun> runs) {
  std::vector<double> ratios;
  ratios.reserve(runs.size());
  for (const CalibrationRun& run : runs) {
    ratios.push_back(std::log(run.measured / run.predicted));
  }
  return ratios;
}

/// For each value the median of all the others; at least two values.
std::vector<double> medians_of_others(const std::vector<double>& values) {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t others = values.size() - 1;
  std::vector<double> medians;
  medians.reserve(values.size());
  for (const double value : values) {
    const auto left_out = static_cast<std::size_t>(
        std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin());
    const auto other = [&](std::size_t i) { return sorted[i < left_out ? i : i + 1]; };
    const std::size_t middle = others / 2;
    medians.push_back(others % 2 == 1 ? other(middle) : (other(middle - 1) + other(middle)) / 2.0);
  }
  return medians;
}

/// A file may have a quarter of a million rows: beyond this, the median distance is that to every
/// k-th run.
constexpr std::size_t kMostCompared = 1000;

/// The calibration at `point` by num_runs runs, all of `points` but `left_out`.
Calibration calibration_at(const RunPoint& point, double factor, int num_runs,
                           const std::vector<RunPoint>& points, std::size_t left_out) {
  const std::size_t stride = points.size() / kMostCompared + 1;
  std::vector<double> distances;
  distances.reserve(points.size() / stride + 1);
  for (std::size_t i = 0; i < points.size(); i += stride) {
    if (i != left_out) {
      distances.push_back(distance(point, points[i]));
    }
  }
  const double typical = median(std::move(distances));
  return {.num_runs = num_runs,
          .factor = factor,
          .interval = kIntervalModel.calibrated(typical, num_runs),
          .distance = typical};
}

std::vector<RunPoint> points_of(std::span<const CalibrationRun> runs) {
  std::vector<RunPoint> points;
  points.reserve(runs.size());
  for (const CalibrationRun& run : runs) {
    points.push_back(run.point);
  }
  return points;
}

}  // namespace

Calibration CalibrationFit::at(const RunPoint& point) const {
  return is_calibrated() ? calibration_at(point, factor, num_runs(), points, points.size())
                         : Calibration();
}

CalibrationFit fit_calibration(std::span<const CalibrationRun> runs) {
  if (runs.size() < static_cast<std::size_t>(kFewestCalibrationRuns)) {
    return {};
  }
  return {.factor = std::exp(median(log_ratios(runs))), .points = points_of(runs)};
}

std::vector<Calibration> leave_one_out(std::span<const CalibrationRun> runs) {
  if (runs.size() <= static_cast<std::size_t>(kFewestCalibrationRuns)) {
    return std::vector<Calibration>(runs.size());
  }
  const std::vector<double> medians = medians_of_others(log_ratios(runs));
  const std::vector<RunPoint> points = points_of(runs);
  const auto num_others = static_cast<int>(runs.size() - 1);
  std::vector<Calibration> calibrations;
  calibrations.reserve(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    calibrations.push_back(calibration_at(points[i], std::exp(medians[i]), num_others, points, i));
  }
  return calibrations;
}

ErrorSummary summarize(std::span<const double> errors) {
  if (errors.empty()) {
    return {};
  }
  ErrorSummary summary{.count = static_cast<int>(errors.size())};
  std::vector<double> absolute;
  for (const double error : errors) {
    absolute.push_back(std::abs(error));
    summary.mean_absolute += std::abs(error) / static_cast<double>(errors.size());
    summary.bias += error / static_cast<double>(errors.size());
  }
  summary.max_absolute = *std::max_element(absolute.begin(), absolute.end());
  summary.p90_absolute = quantile(absolute, 0.9);
  summary.median_absolute = median(std::move(absolute));
  return summary;
}

}  // namespace ptdp
