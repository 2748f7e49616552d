#include "runtime/profiling/samples.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

namespace ptdp {

double quiet_time(std::vector<double> seconds) {
  assert(!seconds.empty());
  std::sort(seconds.begin(), seconds.end());
  return seconds[(seconds.size() - 1) / 4];
}

double spread(std::vector<double> seconds) {
  const std::size_t size = seconds.size();
  if (size < 4) {
    return 0.0;
  }
  std::sort(seconds.begin(), seconds.end());
  return (seconds[size - 1 - size / 4] - seconds[size / 4]) / seconds[size / 2];
}

}  // namespace ptdp
