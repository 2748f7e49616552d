#include "cost_model/calibration/interval.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>

#include "cost_model/calibration/quantile.h"

namespace ptdp {
namespace {

constexpr double kMissed = 0.1;  // share of what may lie outside
constexpr double kNearStep = 0.01;
constexpr double kDistanceStep = 0.005;
constexpr int kSteps = 40;

double half_width(double near, double per_distance, double distance, int num_runs) {
  return std::hypot(near, per_distance * distance) * std::sqrt(1.0 + 1.0 / num_runs);
}

/// One over the number of residuals of each one's group.
std::vector<double> group_weights(std::span<const Residual> residuals) {
  std::map<std::string, int> counts;
  for (const Residual& residual : residuals) {
    ++counts[residual.group];
  }
  std::vector<double> weights;
  weights.reserve(residuals.size());
  for (const Residual& residual : residuals) {
    weights.push_back(1.0 / counts[residual.group]);
  }
  return weights;
}

/// Sets near and per_distance.
void fit_calibrated(std::span<const Residual> residuals, IntervalModel& model) {
  const std::vector<double> weights = group_weights(residuals);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 1; i <= kSteps; ++i) {
    for (int j = 0; j <= kSteps; ++j) {
      const double near = kNearStep * i;
      const double per_distance = kDistanceStep * j;
      double score = 0.0;
      for (std::size_t r = 0; r < residuals.size(); ++r) {
        const Residual& residual = residuals[r];
        const double width = half_width(near, per_distance, residual.distance, residual.num_runs);
        score +=
            weights[r] * (width + std::max(0.0, std::abs(residual.log_ratio) - width) / kMissed);
      }
      if (score < least) {
        least = score;
        model.near = near;
        model.per_distance = per_distance;
      }
    }
  }
}

RelativeInterval fit_uncalibrated(std::span<const Residual> residuals) {
  const std::vector<double> weights = group_weights(residuals);
  std::vector<WeightedValue> ratios;
  ratios.reserve(residuals.size());
  for (std::size_t r = 0; r < residuals.size(); ++r) {
    ratios.push_back({.value = std::exp(residuals[r].log_ratio), .weight = weights[r]});
  }
  const double low = weighted_quantile(ratios, kMissed / 2.0);
  const double high = weighted_quantile(ratios, 1.0 - kMissed / 2.0);
  return {.low = std::min(1.0, std::floor(low * 100.0) / 100.0),
          .high = std::max(1.0, std::ceil(high * 100.0) / 100.0)};
}

}  // namespace

RelativeInterval IntervalModel::calibrated(double distance, int num_runs) const {
  assert(num_runs > 0);
  const double widest = std::log(uncalibrated.high / uncalibrated.low) / 2.0;
  const double width = std::min(widest, half_width(near, per_distance, distance, num_runs));
  return {.low = std::exp(-width), .high = std::exp(width)};
}

IntervalModel fit_interval_model(std::span<const Residual> calibrated,
                                 std::span<const Residual> uncalibrated) {
  IntervalModel model;
  if (!calibrated.empty()) {
    fit_calibrated(calibrated, model);
  }
  if (!uncalibrated.empty()) {
    model.uncalibrated = fit_uncalibrated(uncalibrated);
  }
  return model;
}

}  // namespace ptdp
