#include "runtime/profiling/samples.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace ptdp {

double quiet_time(std::vector<double> seconds) {
  assert(!seconds.empty());
  std::sort(seconds.begin(), seconds.end());
  return seconds[(seconds.size() - 1) / 4];
}

std::vector<std::size_t> middle_half(const std::vector<double>& seconds) {
  assert(!seconds.empty());
  std::vector<std::size_t> order(seconds.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return seconds[a] < seconds[b]; });
  const std::size_t cut = (seconds.size() - 1) / 4;
  return {order.begin() + static_cast<std::ptrdiff_t>(cut),
          order.end() - static_cast<std::ptrdiff_t>(cut)};
}

std::optional<double> spread(std::vector<double> seconds) {
  const std::size_t size = seconds.size();
  if (size < 4) {
    return std::nullopt;
  }
  std::sort(seconds.begin(), seconds.end());
  return (seconds[size - 1 - size / 4] - seconds[size / 4]) / seconds[size / 2];
}

}  // namespace ptdp
