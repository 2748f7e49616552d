#include "cost_model/operations/host_scratch.h"

#include <algorithm>

namespace ptdp {
namespace {

// These constants repeat those of kernels/cpu/attention_tiles.h, portable_gemm.cpp and
// packed_product.h with 512-bit vectors, product.cpp, and runtime/transport/message_communicator.h.
constexpr std::int64_t kTile = 96;
constexpr std::int64_t kDepth = 256;
constexpr std::int64_t kRows = 120;
constexpr std::int64_t kPanelRows = 12;
constexpr std::int64_t kPanelColumnBytes = 128;
constexpr std::int64_t kColumnBytes = 4096;
constexpr std::int64_t kNarrowBlock = 512;
constexpr std::int64_t kSmallProduct = std::int64_t{32} * 32 * 32;
constexpr std::int64_t kCollectiveBytes = std::int64_t{1} << 20;
constexpr int kMostSlices = 4;  // slices of a collective that are received ahead

std::int64_t quotient_above(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int64_t rounded_up(std::int64_t size, std::int64_t multiple) {
  return quotient_above(size, multiple) * multiple;
}

/// Returns the elements of a matrix of `rows` by `depth` once it is packed in panels.
std::int64_t packed_rows(std::int64_t rows, std::int64_t depth, std::int64_t panel) {
  return rounded_up(rounded_up(rows, kPanelRows) * depth, panel);
}

/// Returns the bytes that the runtime's own product loops allocate.
Bytes own_product_scratch(const HostProduct& product, Precision precision) {
  const std::int64_t bytes = accumulator_bytes(precision);
  const std::int64_t panel = kPanelColumnBytes / bytes;
  const bool has_sums = product.narrows && element_bytes(precision) < bytes;
  const std::int64_t depth = std::min(product.k, kDepth);
  const std::int64_t rows = has_sums ? std::min(product.m, kNarrowBlock) : product.m;
  const std::int64_t columns = std::min(product.n, has_sums ? kNarrowBlock : kColumnBytes / bytes);
  const std::int64_t elements = packed_rows(std::min(rows, kRows), depth, panel) +
                                depth * rounded_up(columns, panel) +
                                (has_sums ? rows * columns : 0);
  return Bytes(static_cast<double>(bytes * elements));
}

/// Returns the block size from `least` to `most` whose multiples exceed `size` least. Of equal ones
/// it is the largest.
std::int64_t even_block(std::int64_t size, std::int64_t least, std::int64_t most) {
  std::int64_t best = std::min(size, most);
  for (std::int64_t count = quotient_above(size, most);; ++count) {
    const std::int64_t block = quotient_above(size, count);
    if (block < least && count > 1) {
      return best;
    }
    if (rounded_up(size, block) < rounded_up(size, best)) {
      best = block;
    }
    if (rounded_up(size, best) == size) {
      return best;
    }
  }
}

bool is_power_of_two(std::int64_t value) {
  return (value & (value - 1)) == 0;
}

// Returns the bytes that oneDNN 2.6.3 (Debian 12) requests for a product: brgemm_matmul on one
// thread with AVX-512. It equals, to the byte, what its descriptions of 3,783 random products ask
// for. oneDNN pads or packs strides of a large power of two, since such rows fall on one set of the
// cache.
Bytes one_dnn_scratch(const HostProduct& product, Precision precision) {
  constexpr std::int64_t sum_bytes = 4;
  constexpr std::int64_t columns = 64;     // width of a block of B
  constexpr std::int64_t batch = 640;      // what is multiplied at once, and where it begins
  constexpr std::int64_t alignment = 128;  // bytes, of each buffer
  const auto& [m, n, k, transposes_a, transposes_b, narrows] = product;
  const bool is_bf16 = precision == Precision::kBf16;
  const std::int64_t bytes = is_bf16 ? 2 : 4;
  const std::int64_t step = is_bf16 ? 32 : 16;
  const std::int64_t depth = std::min<std::int64_t>(k, k > 1024 && !transposes_a ? 1024 : 512);
  const bool packs_a = transposes_a || (is_bf16 && is_power_of_two(k) && k >= 4096 && m >= 1024);
  // oneDNN adds to an existing result last, so it needs sums of its own meanwhile.
  const bool has_sums = k > depth && (transposes_a || (is_bf16 && narrows));
  const std::int64_t rows = packs_a || has_sums ? even_block(m, 32, 256) : 0;
  std::int64_t total = batch;
  if (packs_a) {
    const std::int64_t width = rounded_up(depth, step);
    total +=
        rows * (is_power_of_two(width) && width >= 512 ? width + step : width) * bytes + alignment;
  }
  if (transposes_b || is_bf16 || (is_power_of_two(n) && n >= 512)) {
    total += rounded_up(depth, step) * columns * bytes + alignment;
  }
  if (has_sums) {
    const std::int64_t blocks = packs_a ? even_block(quotient_above(n, columns), 1, 16) : 1;
    total += rows * blocks * std::min(n, columns) * sum_bytes + alignment;
  }
  return Bytes(static_cast<double>(rounded_up(total, sum_bytes)));
}

}  // namespace

AttentionScratch host_attention_scratch(int seq_length, int head_size, bool shares_keys,
                                        Precision precision) {
  const std::int64_t bytes = accumulator_bytes(precision);
  const std::int64_t s = seq_length;
  const std::int64_t d = head_size;
  const std::int64_t panel = kPanelColumnBytes / bytes;
  // Each part begins at a multiple of 16 numbers.
  const auto part = [](std::int64_t size) { return rounded_up(size, 16); };
  const std::int64_t packed = part(packed_rows(s, d, panel));
  const std::int64_t of_tile = kTile * d;
  const std::int64_t columns = kTile * rounded_up(d, panel);
  const std::int64_t scores = kTile * kTile;
  const auto in_bytes = [bytes](std::int64_t size) {
    return Bytes(static_cast<double>(bytes * size));
  };
  return {.forward = in_bytes(packed + 2 * of_tile + columns + 2 * scores + 4 * kTile),
          .backward = in_bytes(2 * packed + part(s * d) + part(s) + 2 * of_tile +
                               2 * (shares_keys ? part(s * d) : of_tile) + 2 * columns +
                               3 * scores + kTile)};
}

Bytes host_product_scratch(const HostProduct& product, Precision precision) {
  const bool has_library = precision == Precision::kFp32 || precision == Precision::kBf16;
  return has_library && product.m * product.n * product.k > kSmallProduct
             ? one_dnn_scratch(product, precision)
             : own_product_scratch(product, precision);
}

LinearScratch host_linear_scratch(std::int64_t tokens, std::int64_t outputs, std::int64_t inputs,
                                  Precision precision) {
  const HostProduct forward{.m = tokens, .n = outputs, .k = inputs, .transposes_b = true};
  const HostProduct input{.m = tokens, .n = inputs, .k = outputs};
  const HostProduct weight{
      .m = outputs, .n = inputs, .k = tokens, .transposes_a = true, .narrows = false};
  const Bytes bias(2.0 * accumulator_bytes(precision) * static_cast<double>(outputs));
  return {.forward = host_product_scratch(forward, precision),
          .input = host_product_scratch(input, precision),
          .weight = std::max(host_product_scratch(weight, precision), bias)};
}

Bytes reduction_scratch(std::int64_t bytes, int ranks, int element_bytes) {
  if (ranks == 1 || bytes == 0) {
    return Bytes(0.0);
  }
  const std::int64_t part = quotient_above(bytes / element_bytes, ranks);
  std::int64_t rounds = quotient_above(part, kCollectiveBytes / kMostSlices / element_bytes);
  rounds += rounds > 1 ? rounds % 2 : 0;
  const int lanes = rounds > 1 ? 2 : 1;
  const int slices = ranks == 2 ? lanes : 2 * lanes;
  return Bytes(static_cast<double>(slices * quotient_above(part, rounds) * element_bytes));
}

}  // namespace ptdp
