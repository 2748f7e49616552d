// Where the ranges of parameters begin and end that replicas reduce and gather, and their padding.
//
// This project's runtime lays the parameters of a virtual stage out one after the other, in flat
// coordinates, and cuts these into ranges of one collective each. What is predicted of them and
// what is sent of them follows from the functions of this file.
#pragma once

#include <cstdint>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/pipeline_rank/rank_layers.h"

namespace ptdp {

/// Number of elements at whose multiples every rank's part of a range begins. It is 128 bytes of
/// the narrowest type, which is a cache line and eight of the widest loads.
inline constexpr std::int64_t kPartAlignment = 64;

/// Returns the number A of elements at whose multiples ranges begin and end, A = 64·d. The d
/// `sharers` then have equal parts of a range, each of which begins at a multiple of 64.
[[nodiscard]] constexpr std::int64_t range_alignment(int sharers) {
  return kPartAlignment * sharers;
}

/// Returns the size of a range of `elements` parameters with the padding at its end: the next
/// multiple of A. One rank by itself shares nothing, and pads nothing.
[[nodiscard]] constexpr std::int64_t padded(std::int64_t elements, int sharers) {
  if (sharers == 1) {
    return elements;
  }
  const std::int64_t a = range_alignment(sharers);
  return (elements + a - 1) / a * a;
}

/// Returns where the k-th of n buckets begins in a range of `size` elements, padded; the n-th
/// begins at the range's end. All begin at multiples of A, and differ by at most A but for the
/// last.
[[nodiscard]] constexpr std::int64_t bucket_begin(std::int64_t size, int sharers, int n, int k) {
  const std::int64_t a = range_alignment(sharers);
  return k == n ? size : size / a * k / n * a;
}

/// Returns the number d of ranks that share the optimizer's work on the same parameters. Without
/// ZeRO it is 1, since each rank then does all of the work. In a bidirectional schedule both copies
/// of a stage share it.
[[nodiscard]] int num_sharers(const ParallelConfig& config);

/// Returns the number of elements of the tied embedding's table on a rank, with its padding. They
/// are a range by themselves on the first rank and on the last, which sum their gradients. Returns
/// 0 where the embedding is not tied or one rank holds both ends.
[[nodiscard]] std::int64_t tied_range_size(const TransformerConfig& model,
                                           const ParallelConfig& config);

/// Returns the number of elements by which pipeline rank `rank` (0 … pp−1) pads its parameters
/// outside experts. `layers` are those of `config`. Padded are:
///
///   gradients sharded   each layer, and the ends of the model together (zero_sharding.h)
///   otherwise           in each virtual stage the tied table, and all else together
///
/// Each padding is less than A. Weights, gradients and optimizer states have it alike.
[[nodiscard]] std::int64_t padding_of_rank(const TransformerConfig& model,
                                           const ParallelConfig& config,
                                           const LayersOfRanks& layers, int rank);

}  // namespace ptdp
