// Quantiles of samples, with and without weights.
#pragma once

#include <vector>

namespace ptdp {

/// The value below which a share `q` (0 … 1) of `values` lies, interpolated linearly between the
/// two nearest in order (type 7 of Hyndman & Fan, The American Statistician 1996; numpy's default).
/// At least one value.
[[nodiscard]] double quantile(std::vector<double> values, double q);

/// quantile(values, 0.5): the middle one, or the mean of the middle two.
[[nodiscard]] double median(std::vector<double> values);

struct WeightedValue {
  double value = 0.0;
  double weight = 1.0;  ///< Positive.
};

/// The smallest value at which the weights up to it reach a share `q` of all. At least one value.
[[nodiscard]] double weighted_quantile(std::vector<WeightedValue> values, double q);

}  // namespace ptdp
