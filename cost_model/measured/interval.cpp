#include "cost_model/measured/interval.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>

#include "cost_model/measured/quantile.h"

namespace ptdp {
namespace {

// Share of the residuals that may lie outside. Of a group that the fit has not seen, about a tenth
// then does (`ptdp-calibrate --intervals` holds groups out).
constexpr double kMissed = 0.07;
constexpr double kIntervalRounding = 1e-9;
constexpr double kNearStep = 0.01;
constexpr double kDistanceStep = 0.005;
constexpr int kLeastDistanceSteps = 2;  // intervals must widen: nobody knows errors beyond the runs
constexpr int kSteps = 40;

constexpr double kPriorRuns = 10.0;  // runs that `near` counts as, beside the spread of the runs

double half_width(double near, double per_distance, const Support& support) {
  const double n = support.num_runs;
  const double beside =
      (n * support.spread * support.spread + kPriorRuns * near * near) / (n + kPriorRuns);
  const double far = per_distance * support.distance;
  return std::sqrt((beside + far * far) * (1.0 + 1.0 / n));
}

/// Residuals with their weights: those of a group weigh 1 together.
struct Sample {
  std::span<const Residual> residuals;
  std::vector<double> weights;
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
  return sample;
}

/// Returns the weighted mean half-width of the intervals, or infinity if more than kMissed of the
/// residuals lie outside.
double width_that_covers(const Sample& sample, double near, double per_distance) {
  double widths = 0.0;
  double outside = 0.0;
  double weights = 0.0;
  for (std::size_t r = 0; r < sample.residuals.size(); ++r) {
    const Residual& residual = sample.residuals[r];
    const double width = half_width(near, per_distance, residual.support);
    const double weight = sample.weights[r];
    widths += weight * width;
    outside += std::abs(residual.log_ratio) > width + kIntervalRounding ? weight : 0.0;
    weights += weight;
  }
  return outside <= (kMissed + kIntervalRounding) * weights
             ? widths / weights
             : std::numeric_limits<double>::infinity();
}

/// Sets `near` and `per_distance` of a model to the values with the least mean width.
void fit_calibrated(const Sample& sample, IntervalModel& model) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 1; i <= kSteps; ++i) {
    for (int j = kLeastDistanceSteps; j <= kSteps; ++j) {
      const double near = kNearStep * i;
      const double per_distance = kDistanceStep * j;
      const double score = width_that_covers(sample, near, per_distance);
      if (score < least - kIntervalRounding) {
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
  const double low = weighted_quantile(ratios, kMissed / 2.0);
  const double high = weighted_quantile(ratios, 1.0 - kMissed / 2.0);
  return {.low = std::min(1.0, std::floor(low * 100.0) / 100.0),
          .high = std::max(1.0, std::ceil(high * 100.0) / 100.0)};
}

}  // namespace

RelativeInterval IntervalModel::calibrated(const Support& support) const {
  assert(support.num_runs > 0);
  const double widest = std::log(uncalibrated.high / uncalibrated.low) / 2.0;
  const double width = std::min(widest, half_width(near, per_distance, support));
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
