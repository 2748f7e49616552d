// Time of a matrix product.
#pragma once

#include <cstdint>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/units.h"

namespace ptdp {

/// `batch` products of an m×k by a k×n matrix.
struct MatmulShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  int element_bytes = 2;    ///< Bytes per element of the two factors.
  int output_bytes = 2;     ///< Bytes per element of the result.
  bool accumulate = false;  ///< Whether the product is added to the result, which is then read too.
  /// Whether a kernel for groups of linear layers runs the batch, not one for attention's heads.
  bool is_grouped = false;
};

/// Floating-point operations of all products: 2·m·n·k·batch.
[[nodiscard]] Flops matmul_flops(const MatmulShape& shape);

/// Memory traffic of all products [B]: factors are read once, results written once (and read, if
/// accumulated).
[[nodiscard]] Bytes matmul_bytes(const MatmulShape& shape);

/// Time of the product on one GPU under sustained load. Its result is cut into tiles, 256×128
/// either way round at full rate or 128×128 at 0.8 of it. One tile occupies a multiprocessor, so
/// the kernel runs in waves. A long inner dimension may be split over up to four multiprocessors:
///
///   t = min over tiles and splits of
///       max(waves · 2·rows·columns·(k/split + K0) / (rate·e·peak/SMs),
///           (bytes + 8·m·n·batch·(split−1)) / (e_mem·bandwidth)),
///   waves = max(1, ⌈w⌉ − o·(⌈w⌉ − w)), w = tiles·batch·split / SMs,
///   K0 = K_start + K_out · bytes written (and read, if accumulated) per element of the result
///
/// Here e = matmul_efficiency, e_mem = matmul_memory_efficiency, K_start = matmul_startup_depth,
/// K_out = matmul_output_depth and o = matmul_wave_overlap. k/split is at least 8192. The 8 bytes
/// are fp32 partial sums, out and in.
///
/// A GPU with a matmul_tile has that tile alone, at full rate. The slowdowns below are of tensor
/// cores and do not apply to it:
///
/// - A dimension that is no multiple of 8 halves the rate of a single product, which leaves the
///   tensor cores' fast path. A batch of products (attention) runs at a sixteenth, off the tensor
///   cores. The ratio is on an A100's data sheet; BLOOM's four runs with heads of 108 bear it out.
/// - A batch with a dimension below 64 takes three times as long. BLOOM's run with 256 heads of 56
///   beside that with 128 of 112 (bloom-036, -080) says so. SC21's figure 7, with heads of 32,
///   bears it out.
/// - Grouped products are made for any size and have no slowdown.
///
/// Source: tile and wave quantization as in NVIDIA's "Matrix Multiplication Background".
///
/// The constants are fitted, once per GPU, to products that SimuMax measured (MooreThreads/SimuMax
/// configs/system):
///
/// A100-PCIe, 183 products, four constants: mean error 2.5 %, worst 27 %. It is 2.7 % when one half
/// of the shapes is fitted and the other predicted. Above 1 ms: mean 1.0 %, worst 4 %. The shortest
/// split is the best of 2048, 4096, 8192 and 16384. Square products (NVIDIA's figure, n = 512 to
/// 8192, another card) were not fitted: mean 10 %. Tiles of 128×128 at 0.75 to 0.9 do equally well
/// there. But a 1024³ product that EleutherAI/cookbook reports at 59.9 TFLOP/s is predicted at 109,
/// figure: 89.
///
/// B200, the 274 of 514 products that take 0.8 ms or more, three constants: mean error 3.2 %, worst
/// 22 %; 3.3 % on halves of the shapes. K_start is 0; the fit includes the 56 products of 0.03 to
/// 0.1 ms, times one factor. Shorter products depend on more than their shape: SimuMax times 75
/// repetitions after 25. Products under 0.1 ms come out some 1.3 times as fast as the constants
/// say. Between 0.1 and 0.8 ms one shape is fast and its transpose slow. We read that as a power
/// limit that takes tens of milliseconds to act, and predict what is left when it does: over all
/// 514 the mean error is 11.5 %. The pairs of multiprocessors that share a 256×256 tile on
/// Blackwell fit no better than single ones.
[[nodiscard]] Seconds matmul_time(const MatmulShape& shape, const GpuSpec& gpu,
                                  FlopsPerSecond peak);

/// Time of one of the three products of a linear layer: matmul_time(), corrected by the GPU's
/// measured times of that operation, if it has some (MeasuredOperation). `shape` is a single
/// product whose elements have the bytes of `precision`.
[[nodiscard]] Seconds product_time(DeviceOperation operation, const MatmulShape& shape,
                                   const GpuSpec& gpu, Precision precision);

}  // namespace ptdp
