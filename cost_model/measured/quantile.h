// Quantiles of samples, with and without weights.
#pragma once

#include <vector>

namespace ptdp {

/// Returns the value below which a share `q` (0 … 1) of `values` lies. It interpolates linearly
/// between the two nearest in order (type 7 of Hyndman & Fan, The American Statistician 1996;
/// numpy's default). There must be at least one value.
[[nodiscard]] double quantile(std::vector<double> values, double q);

/// Returns quantile(values, 0.5): the middle value, or the mean of the middle two. There must be at
/// least one value.
[[nodiscard]] double median(std::vector<double> values);

/// A value of a sample with its weight.
struct WeightedValue {
  double value = 0.0;
  double weight = 1.0;  ///< Weight of the value; positive.
};

/// Returns the smallest value at which the weights of all values up to it reach a share `q` of all
/// weights. There must be at least one value.
[[nodiscard]] double weighted_quantile(std::vector<WeightedValue> values, double q);

}  // namespace ptdp
