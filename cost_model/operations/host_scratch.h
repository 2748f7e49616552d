// What single operations of the runtime allocate besides their operands, and release when they are
// done: on a host (kernels/cpu/), and collectives over messages (runtime/transport/).
#pragma once

#include <cstdint>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// Of attention over `seq_length` tokens with heads of `head_size`, one head at a time in tiles of
/// 96: keys and the sums of a tile forward; queries and two kinds of gradients backward. Packed in
/// panels of 12 rows and of two vectors of columns.
struct AttentionScratch {
  Bytes forward;
  Bytes backward;
};
[[nodiscard]] AttentionScratch host_attention_scratch(int seq_length, int head_size,
                                                      Precision precision);

/// An m×k by a k×n matrix. `narrows`: the result has the precision's elements, not its sums'. A
/// factor that is transposed lies in memory column by column.
struct HostProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transposes_a = false;
  bool transposes_b = false;
  bool narrows = true;
};
/// A product packs this much, as the backend chooses who computes it: own loops those of fp64, fp16
/// and of at most 32³ steps, in blocks of 120 rows and 4 KiB of columns of 256 steps, and with
/// narrow results sums of 512 × 512; else oneDNN, whose request is that of version 2.6.3 with
/// AVX-512: a block of at most 256 rows of A where that is transposed, 64 columns of B where that
/// is transposed, bf16 or has rows a power of two long, and sums where 512 steps are not all.
[[nodiscard]] Bytes host_product_scratch(const HostProduct& product, Precision precision);

/// A linear layer takes this scratch for y = x·Wᵀ, the gradient of x, and those of W and its bias.
struct LinearScratch {
  Bytes forward;
  Bytes input;
  Bytes weight;
};
[[nodiscard]] LinearScratch host_linear_scratch(std::int64_t tokens, std::int64_t outputs,
                                                std::int64_t inputs, Precision precision);

/// Of a ring of n ranks that sums a buffer of `bytes`: places for one or two slices of a part from
/// each neighbour, at most 1 MiB.
[[nodiscard]] Bytes reduction_scratch(std::int64_t bytes, int ranks, int element_bytes);

}  // namespace ptdp
