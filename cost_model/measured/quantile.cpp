#include "cost_model/measured/quantile.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

namespace ptdp {

double quantile(std::vector<double> values, double q) {
  assert(!values.empty() && q >= 0.0 && q <= 1.0);
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(position);
  std::nth_element(values.begin(), values.begin() + below, values.end());
  const double lower = values[static_cast<std::size_t>(below)];
  if (static_cast<std::size_t>(below) + 1 == values.size()) {
    return lower;
  }
  const double upper = *std::min_element(values.begin() + below + 1, values.end());
  return lower + (position - static_cast<double>(below)) * (upper - lower);
}

double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

double weighted_quantile(std::vector<WeightedValue> values, double q) {
  assert(!values.empty());
  std::sort(values.begin(), values.end(),
            [](const WeightedValue& a, const WeightedValue& b) { return a.value < b.value; });
  double all = 0.0;
  for (const WeightedValue& value : values) {
    all += value.weight;
  }
  double sum = 0.0;
  for (const WeightedValue& value : values) {
    sum += value.weight;
    if (sum >= q * all) {
      return value.value;
    }
  }
  return values.back().value;
}

}  // namespace ptdp
