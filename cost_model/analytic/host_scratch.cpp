#include "cost_model/analytic/host_scratch.h"

#include <algorithm>

namespace ptdp {
namespace {

// Source: kernels/cpu/attention_tiles.h, own_product.cpp with 512-bit vectors,
// runtime/transport/message_communicator.h.
constexpr std::int64_t kTile = 96;
constexpr std::int64_t kDepth = 256;
constexpr std::int64_t kRows = 120;
constexpr std::int64_t kColumnBytes = 4096;
constexpr std::int64_t kNarrowBlock = 512;
constexpr std::int64_t kCollectiveBytes = std::int64_t{1} << 20;
constexpr int kMostSlices = 4;  // of a collective, received ahead

std::int64_t quotient_above(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

AttentionScratch host_attention_scratch(int seq_length, int head_size, Precision precision) {
  const std::int64_t head = std::int64_t{1} * seq_length * head_size;
  const std::int64_t of_tile = kTile * head_size;
  const std::int64_t scores = kTile * kTile;
  const double bytes = accumulator_bytes(precision);
  return {
      .forward = Bytes(bytes * static_cast<double>(head + 3 * of_tile + 2 * scores + 4 * kTile)),
      .backward = Bytes(
          bytes * static_cast<double>(3 * head + seq_length + 6 * of_tile + 3 * scores + kTile))};
}

Bytes host_product_scratch(const HostProduct& product, Precision precision) {
  if (precision == Precision::kFp32 || precision == Precision::kBf16) {
    return Bytes(0.0);
  }
  const std::int64_t bytes = accumulator_bytes(precision);
  const bool has_sums = product.narrows && element_bytes(precision) < bytes;
  const std::int64_t depth = std::min(product.k, kDepth);
  const std::int64_t rows = has_sums ? std::min(product.m, kNarrowBlock) : product.m;
  const std::int64_t columns = std::min(product.n, has_sums ? kNarrowBlock : kColumnBytes / bytes);
  const std::int64_t elements =
      std::min(rows, kRows) * depth + depth * columns + (has_sums ? rows * columns : 0);
  return Bytes(static_cast<double>(bytes * elements));
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
