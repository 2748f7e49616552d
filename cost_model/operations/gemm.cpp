#include "cost_model/operations/gemm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

namespace ptdp {
namespace {

/// A block of the result that one multiprocessor computes.
struct Tile {
  double rows = 0.0;
  double columns = 0.0;
  /// Share of the largest tile's rate; smaller tiles reload their operands more often.
  double rate = 0.0;
};

constexpr std::array<Tile, 5> kTiles = {Tile{256.0, 128.0, 1.0}, Tile{128.0, 256.0, 1.0},
                                        Tile{128.0, 128.0, 0.8}, Tile{128.0, 64.0, 0.6},
                                        Tile{64.0, 128.0, 0.6}};
constexpr int kMostSplits = 16;
constexpr double kShortestSplit = 512.0;    // inner-dimension steps
constexpr double kPartialSumTraffic = 8.0;  // bytes per element and extra split: fp32 out and in
// Makes a lower bound lower by more than rounding.
constexpr double kBelowTiles = 1.0 - 1e-12;

// Slowdowns for dimensions that are no multiples of 8 elements. Single products lose the tensor
// cores' fast path, batched ones the tensor cores (an A100's plain fp32 rate is 1/16).
constexpr double kUnaligned = 2.0;
constexpr double kUnalignedBatch = 16.0;
// Slowdown of batches (attention) with a dimension below 64, for which cuBLAS has no good tile.
constexpr double kNarrowBatch = 3.0;
constexpr std::int64_t kNarrow = 64;
// Fraction of memory bandwidth that batches (attention) reach, whose results are large.
constexpr double kBatchMemoryEfficiency = 0.85;

/// Factor on the time that a product's tiles give, for shapes that tensor cores run badly.
double slowdown(const MatmulShape& shape) {
  if (shape.is_grouped) {
    return 1.0;
  }
  const std::int64_t tokens = shape.adds_over_tokens ? shape.k : shape.m;
  const std::int64_t features = shape.adds_over_tokens ? shape.m : shape.k;
  const bool has_aligned_features = shape.n % 8 == 0 && features % 8 == 0;
  if (shape.batch == 1) {
    return has_aligned_features ? 1.0 : kUnaligned;
  }
  if (!has_aligned_features || tokens % 8 != 0) {
    return kUnalignedBatch;
  }
  return std::min({shape.m, shape.n, shape.k}) < kNarrow ? kNarrowBatch : 1.0;
}

/// What a product's time depends on beside its tiles and its traffic.
struct MatmulCurve {
  double rate = 0.0;  ///< Rate of the whole GPU with an infinitely long inner dimension [FLOP/s].
  double startup_depth = 0.0;
  Seconds start;
};

MatmulCurve low_bit_curve(const GpuSpec& gpu, LowBitFormat format) {
  const double peak = gpu.peak(format).value();
  for (const LowBitFormat known : {format, LowBitFormat::kFp8}) {
    for (const LowBitProducts& products : gpu.low_bit_products) {
      if (products.format == known) {
        return {
            .rate = products.efficiency * products.sustained.value_or(gpu.matmul_sustained) * peak,
            .startup_depth = products.startup_depth,
            .start = products.start};
      }
    }
  }
  return {.rate = gpu.fp8_matmul_efficiency.value_or(gpu.matmul_efficiency) * gpu.matmul_sustained *
                  peak,
          .startup_depth = gpu.matmul_startup_depth,
          .start = gpu.matmul_start};
}

/// Whether attention's heads run as this batch, on tensor cores.
bool is_of_heads(const MatmulShape& shape, const GpuSpec& gpu) {
  return shape.batch > 1 && !shape.is_grouped && !gpu.matmul_tile;
}

/// Rounds that `tiles` tiles take on the GPU's multiprocessors; a last round that is not full costs
/// less.
double waves(double tiles, const GpuSpec& gpu) {
  const double exact = tiles / gpu.num_multiprocessors;
  const double rounded = std::ceil(exact);
  return std::max(1.0, rounded - gpu.matmul_wave_overlap * (rounded - exact));
}

/// Time of a product whose tiles follow `curve` (matmul_time()).
Seconds curve_time(const MatmulShape& shape, const GpuSpec& gpu, const MatmulCurve& curve) {
  const double rate = curve.rate / gpu.num_multiprocessors;
  const double bandwidth =
      (is_of_heads(shape, gpu) ? kBatchMemoryEfficiency : gpu.matmul_memory_efficiency) *
      gpu.memory_bandwidth.value();
  const double bytes = matmul_bytes(shape).value();
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const auto batch = static_cast<double>(shape.batch);
  const double partial_sums = kPartialSumTraffic * m * n * batch;
  const double output_passes = shape.accumulate ? 2.0 : 1.0;
  const double startup_depth =
      curve.startup_depth + gpu.matmul_output_depth * shape.output_bytes * output_passes;

  double best = std::numeric_limits<double>::infinity();
  const Tile own = gpu.matmul_tile
                       ? Tile{1.0 * gpu.matmul_tile->rows, 1.0 * gpu.matmul_tile->columns, 1.0}
                       : Tile{};
  for (const Tile& tile : gpu.matmul_tile ? std::span(&own, 1) : std::span(kTiles)) {
    const double tiles = std::ceil(m / tile.rows) * std::ceil(n / tile.columns) * batch;
    const double flops_per_step = 2.0 * tile.rows * tile.columns / tile.rate;
    // Time of a step of the inner dimension if no multiprocessor waited in the last wave.
    const double least_step = kBelowTiles * tiles * flops_per_step / curve.rate;
    for (int split = 1; split <= kMostSplits; ++split) {
      if (split > 1 && k / split < kShortestSplit) {
        break;
      }
      const double memory = (bytes + partial_sums * (split - 1)) / bandwidth;
      if (memory >= best || least_step * (k + split * startup_depth) >= best) {
        break;  // both grow with the split
      }
      const double compute =
          waves(tiles * split, gpu) * flops_per_step * (k / split + startup_depth) / rate;
      best = std::min(best, std::max(compute, memory));
    }
  }
  return curve.start + Seconds((gpu.matmul_tile ? 1.0 : slowdown(shape)) * best);
}

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
  return Bytes(static_cast<double>(shape.batch) * (shape.element_bytes * (m * k + k * n) +
                                                   m * n * shape.output_bytes * result_passes));
}

Seconds matmul_time(const MatmulShape& shape, const GpuSpec& gpu, FlopsPerSecond peak) {
  return curve_time(shape, gpu,
                    {.rate = matmul_rate(gpu, peak).value(),
                     .startup_depth = gpu.matmul_startup_depth,
                     .start = gpu.matmul_start});
}

Seconds low_bit_matmul_time(const MatmulShape& shape, const GpuSpec& gpu, LowBitFormat format) {
  return curve_time(shape, gpu, low_bit_curve(gpu, format));
}

FlopsPerSecond matmul_rate(const GpuSpec& gpu, FlopsPerSecond peak) {
  return FlopsPerSecond(gpu.matmul_efficiency * gpu.matmul_sustained * peak.value());
}

FlopsPerSecond low_bit_rate(const GpuSpec& gpu, LowBitFormat format) {
  return FlopsPerSecond(low_bit_curve(gpu, format).rate);
}

Seconds product_time(DeviceOperation operation, const MatmulShape& shape, const GpuSpec& gpu,
                     Precision precision) {
  const FlopsPerSecond peak = gpu.peak(precision);
  const Seconds modelled = matmul_time(shape, gpu, peak);
  const MeasuredOperation* measured = find_measured(gpu.measured_operations, operation, precision);
  if (measured == nullptr) {
    return modelled;
  }
  const OperationSizes sizes = {static_cast<double>(shape.m), static_cast<double>(shape.n),
                                static_cast<double>(shape.k)};
  return modelled * measured->correction(sizes, [&](const OperationSizes& at) {
    MatmulShape other = shape;
    other.m = std::llround(at[0]);
    other.n = std::llround(at[1]);
    other.k = std::llround(at[2]);
    return matmul_time(other, gpu, peak);
  });
}

}  // namespace ptdp
