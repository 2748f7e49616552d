// Scratch memory of single operations of the runtime, beside their operands, from start to end of
// the operation. It covers operations on a host (kernels/cpu/) and collectives over messages
// (runtime/transport/).
#pragma once

#include <cstdint>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// Bytes that host attention allocates forward and backward, released when it is done.
struct AttentionScratch {
  Bytes forward;
  Bytes backward;
};
/// Computes the scratch of attention over `seq_length` tokens with heads of `head_size`. Attention
/// works on one head at a time in tiles of 96. Forward it keeps the head's keys and the sums of a
/// tile; backward the queries and two kinds of gradients. Where heads share keys, it keeps the
/// gradients of all keys and values instead of those of a tile. Matrices are packed in panels of 12
/// rows and of two vectors of columns.
[[nodiscard]] AttentionScratch host_attention_scratch(int seq_length, int head_size,
                                                      bool shares_keys, Precision precision);

/// A host product of an m×k by a k×n matrix.
struct HostProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transposes_a = false;  ///< Whether the m×k factor lies in memory column by column.
  bool transposes_b = false;  ///< Whether the k×n factor lies in memory column by column.
  /// Whether the result has the precision's elements rather than its accumulator's.
  bool narrows = true;
};
/// Computes the bytes that a product packs its operands into, which depend on who computes it.
///
/// Own loops do those of fp64, fp16 and of at most 32³ steps. They work in blocks of 120 rows and 4
/// KiB of columns of 256 steps, and with narrow results on sums of 512 × 512.
///
/// oneDNN does the others. Its request is that of version 2.6.3 with AVX-512: a block of at most
/// 256 rows of A, if A is transposed; 64 columns of B, if B is transposed, bf16, or has rows a
/// power of two long; and sums, if 512 steps are not all. one_dnn_scratch() in the source states
/// every case.
[[nodiscard]] Bytes host_product_scratch(const HostProduct& product, Precision precision);

/// Scratch of the products of a linear layer: y = x·Wᵀ, the gradient of x, and those of W and its
/// bias.
struct LinearScratch {
  Bytes forward;
  Bytes input;
  Bytes weight;
};
[[nodiscard]] LinearScratch host_linear_scratch(std::int64_t tokens, std::int64_t outputs,
                                                std::int64_t inputs, Precision precision);

/// Computes the scratch of a ring of `ranks` ranks that sums a buffer of `bytes`: places for one or
/// two slices of a part from each neighbor, at most 1 MiB. One rank or an empty buffer needs none.
[[nodiscard]] Bytes reduction_scratch(std::int64_t bytes, int ranks, int element_bytes);

}  // namespace ptdp
