// Time of a matrix product.
#pragma once

#include <cstdint>

#include "cost_model/spec/cluster_spec.h"
#include "cost_model/units.h"

namespace ptdp {

/// `batch` products of an m×k by a k×n matrix of 2-byte elements.
struct MatmulShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  int output_bytes = 2;     ///< Per element of the result.
  bool accumulate = false;  ///< Adds to the result, which is then read too.
};

/// 2·m·n·k per product.
[[nodiscard]] Flops matmul_flops(const MatmulShape& shape);

/// Elements read once and results written once (and read, if accumulated).
[[nodiscard]] Bytes matmul_bytes(const MatmulShape& shape);

/// Time of the product on one GPU. Its result is cut into tiles of 256×128 or 128×256, whichever
/// are fewer; one tile occupies a multiprocessor, so the kernel runs in waves; and the inner
/// dimension may be split over up to four multiprocessors:
///
///   t = min over split of max(waves · 2·256·128·(k/split + K0) / (e·peak/SMs),
///                             (bytes + 8·m·n·batch·(split−1)) / (e_mem·bandwidth)),
///   waves = ceil(tiles·batch·split / SMs); 8 bytes: fp32 partial sums out and in
///
/// with K0 = matmul_startup_depth and e = matmul_efficiency. Dimensions that are no multiple of 8
/// run at half rate, off the tensor cores' fast path. Source: tile and wave quantisation as in
/// NVIDIA's "Matrix Multiplication Background"; e and K0 fitted to 183 products measured on an
/// A100-PCIe by SimuMax (configs/system/a100_pcie.json): mean error 4.3 %, worst 28 %. Smaller
/// tiles improve that fit by nothing and make small products far too fast.
[[nodiscard]] Seconds matmul_time(const MatmulShape& shape, const GpuSpec& gpu,
                                  FlopsPerSecond peak);

}  // namespace ptdp
