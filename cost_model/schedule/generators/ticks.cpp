#include "cost_model/schedule/generators/ticks.h"

#include <algorithm>
#include <cmath>

namespace ptdp {

Seconds suitable_tick(std::span<const Seconds> durations) {
  constexpr double largest_whole = 1e6;
  constexpr double ticks_of_longest = 1e4;
  double longest = 0.0;
  bool are_whole = true;
  for (const Seconds duration : durations) {
    longest = std::max(longest, duration.value());
    are_whole = are_whole && std::floor(duration.value()) == duration.value();
  }
  return are_whole && longest <= largest_whole ? Seconds(1.0) : Seconds(longest / ticks_of_longest);
}

int in_ticks(Seconds duration, Seconds tick, int least) {
  const double ticks = std::round(duration.value() / tick.value());
  return static_cast<int>(std::clamp(ticks, static_cast<double>(least), double{kMostTicks}));
}

}  // namespace ptdp
