#include "cost_model/measured/interval.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <map>
#include <vector>

#include "cost_model/measured/quantile.h"

namespace ptdp {

RelativeInterval fit_uncalibrated_interval(std::span<const Residual> residuals) {
  constexpr double missed = 0.07;
  std::map<std::string, int> counts;
  for (const Residual& residual : residuals) {
    ++counts[residual.group];
  }
  std::vector<WeightedValue> ratios;
  ratios.reserve(residuals.size());
  for (const Residual& residual : residuals) {
    ratios.push_back(
        {.value = std::exp(residual.log_ratio), .weight = 1.0 / counts[residual.group]});
  }
  if (ratios.empty()) {
    return {};
  }
  const double low = weighted_quantile(ratios, missed / 2.0);
  const double high = weighted_quantile(ratios, 1.0 - missed / 2.0);
  return {.low = std::min(1.0, std::floor(low * 100.0) / 100.0),
          .high = std::max(1.0, std::ceil(high * 100.0) / 100.0)};
}

RelativeInterval interval_of(double variance, double degrees) {
  const double quantile =
      boost::math::quantile(boost::math::students_t_distribution<double>(degrees), 0.95);
  const double width = quantile * std::sqrt(variance);
  return {.low = std::exp(-width), .high = std::exp(width)};
}

}  // namespace ptdp
