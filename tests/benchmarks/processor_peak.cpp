// Measures the peak rates of one core: multiply-adds in registers, and copying.
#include "tests/benchmarks/processor_peak.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>
#include <vector>

namespace ptdp {
namespace {

/// Returns the best of 20 runs in seconds of the core, which other programs do not lengthen.
template <class Function>
double best_time(const Function& function) {
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 20; ++run) {
    const std::clock_t start = std::clock();
    function();
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

/// Steps of each chain. There are enough chains to hide the latency of a multiply-add, and few
/// enough for the registers.
constexpr std::int64_t kSteps = 1'000'000;

template <class Number, int kBytes>
struct VectorOf {
  using Type __attribute__((vector_size(kBytes))) = Number;
};

template <class Number, int kBytes, int kChains>
inline __attribute__((always_inline)) void multiply_add(const Number* starts) {
  using Vector = typename VectorOf<Number, kBytes>::Type;
  std::array<Vector, kChains> sums{};
  for (int chain = 0; chain < kChains; ++chain) {  // the compiler would compute equal chains once
    sums.data()[chain] = Vector{} + starts[chain];
  }
  const Number factor = starts[0];
  for (std::int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 24
    for (int chain = 0; chain < kChains; ++chain) {
      sums.data()[chain] = sums.data()[chain] * factor + factor;
    }
  }
  benchmark::DoNotOptimize(sums);
}

template <class Number, int kBytes, int kChains>
constexpr double kFlops = 2.0 * kChains* kSteps* kBytes / sizeof(Number);

#if defined(__x86_64__)
template <class Number>
__attribute__((target("avx512f"))) void multiply_add_512(const Number* starts) {
  multiply_add<Number, 64, 24>(starts);
}
template <class Number>
__attribute__((target("avx2,fma"))) void multiply_add_256(const Number* starts) {
  multiply_add<Number, 32, 12>(starts);
}
#endif

}  // namespace

template <class Number>
double peak_flops() {
  std::array<Number, 24> starts{};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    starts[i] = static_cast<Number>(0.75 + 0.001 * static_cast<double>(i));
  }
  benchmark::DoNotOptimize(starts.data());
  benchmark::ClobberMemory();
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    return kFlops<Number, 64, 24> / best_time([&] { multiply_add_512<Number>(starts.data()); });
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return kFlops<Number, 32, 12> / best_time([&] { multiply_add_256<Number>(starts.data()); });
  }
#endif
  return kFlops<Number, 16, 12> / best_time([&] { multiply_add<Number, 16, 12>(starts.data()); });
}
template double peak_flops<double>();
template double peak_flops<float>();

double copy_bandwidth() {
  constexpr std::size_t bytes = std::size_t{256} << 20U;
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  return 2.0 * bytes / best_time([&] {
           std::memcpy(to.data(), from.data(), bytes);
           benchmark::ClobberMemory();
         });
}

}  // namespace ptdp
