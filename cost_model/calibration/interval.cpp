#include "cost_model/calibration/interval.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>

#include "cost_model/calibration/quantile.h"

namespace ptdp {
namespace {

constexpr double kCovered = 0.9;       // of a group that is not among those fitted to
constexpr double kLeastMissed = 0.02;  // however few the groups are
constexpr double kNearStep = 0.01;
constexpr double kDistanceStep = 0.005;
constexpr int kLeastDistanceSteps = 2;  // what lies beyond the runs is not known to be as near
constexpr int kSteps = 40;

double half_width(double near, double per_distance, double distance, int num_runs) {
  const double far = per_distance * distance;
  return std::sqrt((near * near + far * far) * (1.0 + 1.0 / num_runs));
}

/// Residuals, what each weighs, and which share of all that may lie outside.
struct Sample {
  std::span<const Residual> residuals;
  std::vector<double> weights;
  double missed = 0.0;
};

Sample sample_of(std::span<const Residual> residuals) {
  std::map<std::string, int> counts;
  for (const Residual& residual : residuals) {
    ++counts[residual.group];
  }
  Sample sample{.residuals = residuals};
  sample.weights.reserve(residuals.size());
  for (const Residual& residual : residuals) {
    sample.weights.push_back(1.0 / counts[residual.group]);
  }
  const auto num_groups = static_cast<double>(counts.size());
  sample.missed = std::max(kLeastMissed, 1.0 - kCovered * (1.0 + 1.0 / num_groups));
  return sample;
}

double interval_score(const Sample& sample, double near, double per_distance) {
  double score = 0.0;
  for (std::size_t r = 0; r < sample.residuals.size(); ++r) {
    const Residual& residual = sample.residuals[r];
    const double width = half_width(near, per_distance, residual.distance, residual.num_runs);
    score += sample.weights[r] *
             (width + std::max(0.0, std::abs(residual.log_ratio) - width) / sample.missed);
  }
  return score;
}

/// Sets near and per_distance.
void fit_calibrated(const Sample& sample, IntervalModel& model) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 1; i <= kSteps; ++i) {
    for (int j = kLeastDistanceSteps; j <= kSteps; ++j) {
      const double near = kNearStep * i;
      const double per_distance = kDistanceStep * j;
      const double score = interval_score(sample, near, per_distance);
      if (score < least) {
        least = score;
        model.near = near;
        model.per_distance = per_distance;
      }
    }
  }
}

RelativeInterval fit_uncalibrated(const Sample& sample) {
  std::vector<WeightedValue> ratios;
  ratios.reserve(sample.residuals.size());
  for (std::size_t r = 0; r < sample.residuals.size(); ++r) {
    ratios.push_back(
        {.value = std::exp(sample.residuals[r].log_ratio), .weight = sample.weights[r]});
  }
  const double low = weighted_quantile(ratios, sample.missed / 2.0);
  const double high = weighted_quantile(ratios, 1.0 - sample.missed / 2.0);
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
    fit_calibrated(sample_of(calibrated), model);
  }
  if (!uncalibrated.empty()) {
    model.uncalibrated = fit_uncalibrated(sample_of(uncalibrated));
  }
  return model;
}

}  // namespace ptdp
