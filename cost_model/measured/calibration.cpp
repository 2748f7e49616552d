#include "cost_model/measured/calibration.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cost_model/measured/quantile.h"

namespace ptdp {
namespace {

/// Returns the logarithms of measured/predicted, in the order of the runs.
std::vector<double> log_ratios(std::span<const CalibrationRun> runs) {
  std::vector<double> ratios;
  ratios.reserve(runs.size());
  for (const CalibrationRun& run : runs) {
    ratios.push_back(std::log(run.measured / run.predicted));
  }
  return ratios;
}

/// Returns for each value the median of all other values, of which there must be one at least.
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

constexpr double kSpread = 0.9;  // share of the runs that the spread holds

/// The most runs that a prediction's distance is taken to. A file may have a quarter of a million
/// rows: beyond this number, only every k-th run counts.
constexpr std::size_t kMostCompared = 1000;

/// Returns the distance from `point` within which as many of `points` lie as a factor needs. The
/// point with index `left_out` does not count.
double reach(const CalibrationPoint& point, const std::vector<CalibrationPoint>& points,
             std::size_t left_out) {
  const std::size_t stride = points.size() / kMostCompared + 1;
  std::vector<double> distances;
  distances.reserve(points.size() / stride + 1);
  for (std::size_t i = 0; i < points.size(); i += stride) {
    if (i != left_out) {
      distances.push_back(distance(point, points[i]));
    }
  }
  const auto nearest = distances.begin() +
                       std::min<std::ptrdiff_t>(kFewestCalibrationRuns, std::ssize(distances)) - 1;
  std::nth_element(distances.begin(), nearest, distances.end());
  return *nearest;
}

Calibration calibration_of(double factor, const Support& support) {
  return {.support = support, .factor = factor, .interval = kIntervalModel.calibrated(support)};
}

/// Returns the absolute distances of logarithms of ratios from their median.
std::vector<double> deviations_of(const std::vector<double>& ratios) {
  const double middle = median(ratios);
  std::vector<double> deviations;
  deviations.reserve(ratios.size());
  for (const double ratio : ratios) {
    deviations.push_back(std::abs(ratio - middle));
  }
  return deviations;
}

/// Returns for each value the 90th percentile of all other values, of which there must be one at
/// least.
std::vector<double> spreads_of_others(const std::vector<double>& values) {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const double position = kSpread * static_cast<double>(values.size() - 2);
  const auto below = static_cast<std::size_t>(position);
  std::vector<double> spreads;
  spreads.reserve(values.size());
  for (const double value : values) {
    const auto left_out = static_cast<std::size_t>(
        std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin());
    const auto other = [&](std::size_t i) {
      return sorted[std::min(i < left_out ? i : i + 1, sorted.size() - 1)];
    };
    spreads.push_back(other(below) +
                      (position - static_cast<double>(below)) * (other(below + 1) - other(below)));
  }
  return spreads;
}

std::vector<CalibrationPoint> points_of(std::span<const CalibrationRun> runs) {
  std::vector<CalibrationPoint> points;
  points.reserve(runs.size());
  for (const CalibrationRun& run : runs) {
    points.push_back(run.point);
  }
  return points;
}

}  // namespace

Calibration CalibrationFit::at(const CalibrationPoint& point) const {
  if (!is_calibrated()) {
    return {};
  }
  return calibration_of(
      factor,
      {.num_runs = num_runs(), .distance = reach(point, points, points.size()), .spread = spread});
}

CalibrationFit fit_calibration(std::span<const CalibrationRun> runs) {
  if (runs.size() < static_cast<std::size_t>(kFewestCalibrationRuns)) {
    return {};
  }
  const std::vector<double> ratios = log_ratios(runs);
  return {.factor = std::exp(median(ratios)),
          .spread = quantile(deviations_of(ratios), kSpread),
          .points = points_of(runs)};
}

std::vector<Calibration> leave_one_out(std::span<const CalibrationRun> runs) {
  if (runs.size() <= static_cast<std::size_t>(kFewestCalibrationRuns)) {
    return std::vector<Calibration>(runs.size());
  }
  const std::vector<double> ratios = log_ratios(runs);
  const std::vector<double> medians = medians_of_others(ratios);
  const std::vector<double> spreads = spreads_of_others(deviations_of(ratios));
  const std::vector<CalibrationPoint> points = points_of(runs);
  std::vector<Calibration> calibrations;
  calibrations.reserve(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    calibrations.push_back(
        calibration_of(std::exp(medians[i]), {.num_runs = static_cast<int>(runs.size() - 1),
                                              .distance = reach(points[i], points, i),
                                              .spread = spreads[i]}));
  }
  return calibrations;
}

ErrorSummary to_text(std::span<const double> errors) {
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
