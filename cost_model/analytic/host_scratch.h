// What single operations of the runtime allocate besides their operands, and release when they are
// done: on a host (kernels/cpu/), and collectives over messages (runtime/transport/).
#pragma once

#include <cstdint>

#include "cost_model/spec/parallel_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// Of attention over `seq_length` tokens with heads of `head_size`, one head at a time in tiles of
/// 96: keys and the sums of a tile forward; queries and two kinds of gradients backward.
struct AttentionScratch {
  Bytes forward;
  Bytes backward;
};
[[nodiscard]] AttentionScratch host_attention_scratch(int seq_length, int head_size,
                                                      Precision precision);

/// An m×k by a k×n matrix. `narrows`: the result has the precision's elements, not its sums'.
struct HostProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool narrows = true;
};
/// Of a product in blocks, as fp64 and fp16 have them: 120 rows and 4 KiB of columns of 256 steps,
/// and with narrow results sums of 512 × 512. Those of fp32 and bf16 are a library's, which takes
/// next to nothing.
[[nodiscard]] Bytes host_product_scratch(const HostProduct& product, Precision precision);

/// Of a ring of n ranks that sums a buffer of `bytes`: places for one or two slices of a part from
/// each neighbour, at most 1 MiB.
[[nodiscard]] Bytes reduction_scratch(std::int64_t bytes, int ranks, int element_bytes);

}  // namespace ptdp
