#include "cost_model/operations/slowest_card.h"

#include <cmath>

namespace ptdp {

double expected_largest_deviation(std::int64_t cards) {
  if (cards <= 1) {
    return 0.0;
  }
  const auto n = static_cast<double>(cards);
  const double above = 0.625 / (n + 0.25);
  // The normal quantile, within 4.5e-4: Abramowitz and Stegun, 26.2.23.
  const double t = std::sqrt(-2.0 * std::log(above));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

double slowest_card_factor(std::int64_t cards, double card_spread) {
  if (card_spread == 0.0) {
    return 1.0;
  }
  constexpr double steps = 500.0;
  return 1.0 + std::round(steps * card_spread * expected_largest_deviation(cards)) / steps;
}

}  // namespace ptdp
