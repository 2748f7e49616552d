#include "runtime/profiling/repeated_calls.h"

#include <vector>

#include "runtime/profiling/samples.h"

namespace ptdp {

double time_of(Backend& backend, const std::function<void()>& operation) {
  constexpr int batches = 9;
  constexpr double of_batch = 4e-3;
  const auto seconds_of = [&](int calls) {
    const Event begin = backend.record();
    for (int i = 0; i < calls; ++i) {
      operation();
    }
    const Event end = backend.record();
    backend.synchronize();
    return backend.seconds_between(begin, end);
  };
  operation();
  int calls = 1;
  while (seconds_of(calls) < of_batch / 2 && calls < 1'000'000) {
    calls *= 2;
  }
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(batches));
  for (int batch = 0; batch < batches; ++batch) {
    times.push_back(seconds_of(calls) / calls);
  }
  return quiet_time(times);
}

}  // namespace ptdp
