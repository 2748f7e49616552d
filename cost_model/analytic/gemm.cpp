#include "cost_model/analytic/gemm.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ptdp {
namespace {

constexpr double kLongSide = 256.0;  // of a tile, along either dimension of the result
constexpr double kShortSide = 128.0;
constexpr int kMostSplits = 4;
constexpr double kShortestSplit = 256.0;    // inner-dimension steps; shorter splits never pay
constexpr double kPartialSumTraffic = 8.0;  // bytes per element and extra split: fp32 out and in

}  // namespace

Flops matmul_flops(const MatmulShape& shape) {
  return Flops(2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
               static_cast<double>(shape.k) * static_cast<double>(shape.batch));
}

Bytes matmul_bytes(const MatmulShape& shape) {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const double result_passes = shape.accumulate ? 2.0 : 1.0;
  return Bytes(static_cast<double>(shape.batch) *
               (2.0 * (m * k + k * n) + m * n * shape.output_bytes * result_passes));
}

Seconds matmul_time(const MatmulShape& shape, const GpuSpec& gpu, FlopsPerSecond peak) {
  const double rate = gpu.matmul_efficiency * peak.value() / gpu.num_multiprocessors;
  const double bandwidth = gpu.matmul_memory_efficiency * gpu.memory_bandwidth.value();
  const double bytes = matmul_bytes(shape).value();
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const auto batch = static_cast<double>(shape.batch);
  const double partial_sums = kPartialSumTraffic * m * n * batch;

  const double tall_tiles = std::ceil(m / kLongSide) * std::ceil(n / kShortSide);
  const double wide_tiles = std::ceil(m / kShortSide) * std::ceil(n / kLongSide);
  const double tiles = std::min(tall_tiles, wide_tiles) * batch;
  double best = std::numeric_limits<double>::infinity();
  for (int split = 1; split <= kMostSplits; ++split) {
    if (split > 1 && k / split < kShortestSplit) {
      break;
    }
    const double waves = std::ceil(tiles * split / gpu.num_multiprocessors);
    const double compute =
        waves * 2.0 * kLongSide * kShortSide * (k / split + gpu.matmul_startup_depth) / rate;
    const double memory = (bytes + partial_sums * (split - 1)) / bandwidth;
    best = std::min(best, std::max(compute, memory));
  }
  const bool is_aligned = shape.m % 8 == 0 && shape.n % 8 == 0 && shape.k % 8 == 0;
  return Seconds(is_aligned ? best : 2.0 * best);
}

}  // namespace ptdp
