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
  double element_bytes = 2.0;  ///< Bytes per element of the two factors, scales included.
  int output_bytes = 2;        ///< Bytes per element of the result.
  bool accumulate = false;  ///< Whether the product is added to the result, which is then read too.
  /// Whether a kernel for groups of linear layers runs the batch, not one for attention's heads.
  bool is_grouped = false;
  /// Whether k counts tokens, as in weight gradients; else m does.
  bool adds_over_tokens = false;
};

/// Floating-point operations of all products: 2·m·n·k·batch.
[[nodiscard]] Flops matmul_flops(const MatmulShape& shape);

/// Memory traffic of all products [B]: factors are read once, results written once (and read, if
/// accumulated).
[[nodiscard]] Bytes matmul_bytes(const MatmulShape& shape);

/// Time of the product on one GPU in a training step. Its result is cut into tiles, of which one
/// occupies a multiprocessor, so the kernel runs in waves. A long inner dimension may be split over
/// up to 16 multiprocessors, in parts of 512 and more:
///
///   t = t_start + min over tiles and splits of
///       max(waves · 2·rows·columns·(k/split + K0) / (rate·e·σ·peak/SMs),
///           (bytes + 8·m·n·batch·(split−1)) / (e_mem·bandwidth)),
///   waves = max(1, ⌈w⌉ − o·(⌈w⌉ − w)), w = tiles·batch·split / SMs,
///   K0 = K_start + K_out · bytes written (and read, if accumulated) per element of the result
///
/// Tiles are 256×128 either way round at full rate, 128×128 at 0.8 of it and 128×64 either way
/// round at 0.6. The 8 bytes are fp32 partial sums, out and in. The constants are the GPU's
/// matmul_start, _efficiency (e), _sustained (σ), _memory_efficiency (e_mem), _startup_depth,
/// _output_depth and _wave_overlap (o).
///
/// A GPU with a matmul_tile has that tile alone, at full rate. The slowdowns below are of tensor
/// cores and do not apply to it:
///
/// - A number of features that is no multiple of 8 halves the rate of a single product, which
/// leaves
///   the tensor cores' fast path. Odd numbers of tokens cost a few percent (aiconfigurator's rows
///   of m+1) and are taken to cost nothing: rows of matrices lie features apart.
/// - A batch of products (attention) with a dimension that is no multiple of 8 runs at a
///   sixteenth, off the tensor cores. The ratio is on an A100's data sheet; BLOOM's four runs with
///   heads of 108 bear it out.
/// - A batch with a dimension below 64 takes three times as long. BLOOM's run with 256 heads of 56
///   beside that with 128 of 112 (bloom-036, -080) says so. SC21's figure 7, with heads of 32,
///   bears it out.
/// - Grouped products are made for any size and have no slowdown.
///
/// Batches of attention's heads take e_mem = 0.85 (calculon systems/a100_80g.json: 0.75 to 0.90 by
/// size): their results are large.
///
/// Source: tile and wave quantization as in NVIDIA's "Matrix Multiplication Background".
///
/// Shape and level rest on different rows, of NVIDIA's aiconfigurator-core 0.12.0 and of SimuMax
/// (MooreThreads/SimuMax configs/system); ACCURACY.md has the errors:
///
/// - The shape and e: products shorter than 3 ms of one GPU, at clocks that no limit of power
///   lowers. tests/validation/kernels/products_test.cpp fits them again.
/// - σ: what longer runs leave of e. Each profile names its rows.
/// - K_out: results in fp32, of which only SimuMax has some, on an A100 and a B200.
/// - Tiles, their rates and the shortest part of a split are the same for all GPUs: 512 is the best
///   of 512, 1024 and 8192 on the rows of five GPUs. SimuMax's A100 alone prefers 8192.
[[nodiscard]] Seconds matmul_time(const MatmulShape& shape, const GpuSpec& gpu,
                                  FlopsPerSecond peak);

/// Time of a product whose factors have 8 or 4 bits, casts apart: matmul_time() with the constants
/// of the format, of fp8's where the GPU has none of the format, or else of 16 bits over the
/// format's peak. Elements of `shape` have their part of a scale; scales cost products nothing
/// more.
[[nodiscard]] Seconds low_bit_matmul_time(const MatmulShape& shape, const GpuSpec& gpu,
                                          LowBitFormat format);

/// Rate of products over `peak` that matmul_time() never exceeds.
[[nodiscard]] FlopsPerSecond matmul_rate(const GpuSpec& gpu, FlopsPerSecond peak);

/// Rate of products of any size in a format of 8 or 4 bits that low_bit_matmul_time() never
/// exceeds.
[[nodiscard]] FlopsPerSecond low_bit_rate(const GpuSpec& gpu, LowBitFormat format);

/// Time of one of the three products of a linear layer: matmul_time(), corrected by the GPU's
/// measured times of that operation, if it has some (MeasuredOperation). `shape` is a single
/// product whose elements have the bytes of `precision`.
[[nodiscard]] Seconds product_time(DeviceOperation operation, const MatmulShape& shape,
                                   const GpuSpec& gpu, Precision precision);

}  // namespace ptdp
