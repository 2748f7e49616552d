// Causal self-attention in tiles, with memory linear in the sequence. Source: Milakov & Gimelshein,
// Online normalizer calculation for softmax (arXiv:1805.02867).
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/fill_loops.h"
#include "kernels/cpu/math.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

/// Offsets of the parts of the scratch. Scores are kept as [key, query]. What is summed over keys
/// thus lies in one lane of vectors, and the tile is already in the order of a left operand.
template <class Sum>
struct Parts {
  explicit Parts(const Attention& shape) {
    const std::int64_t d = shape.head_size;
    ScratchParts parts;
    keys = parts.take(packed_rows_size<Sum>(shape.seq_length, d));
    queries = parts.take(packed_columns_size<Sum>(d, kTile));
    values = parts.take(packed_columns_size<Sum>(kTile, d));
    scores = parts.take(kTile * kTile);
    packed = parts.take(packed_rows_size<Sum>(kTile, kTile));
    sums = parts.take(kTile * d);
    most = parts.take(kTile);
    total = parts.take(kTile);
    shrink = parts.take(kTile);
    mask = parts.take(kTile);
    size = parts.size();
  }

  std::int64_t keys, queries, values, scores, packed, sums, most, total, shrink, mask, size;
};

/// The running results of a tile of queries.
template <class Sum>
struct Queries {
  std::int64_t first = 0;
  std::int64_t count = 0;
  Sum* sums;    ///< Σ e^(score − most)·value [count, d].
  Sum* most;    ///< Maximum of the scores so far [count].
  Sum* total;   ///< Σ e^(score − most) [count].
  Sum* shrink;  ///< e^(earlier most − most) [count].
};

/// Replaces scores [key, query] by e^(factor·score − most), and adds them to the totals.
template <class Sum>
void take_exponentials(Sum* scores, std::int64_t num_keys, Sum factor,
                       const Queries<Sum>& queries) {
  const std::int64_t count = queries.count;
  Sum* const most = queries.most;
  Sum* const total = queries.total;
  Sum* const shrink = queries.shrink;
  for (std::int64_t q = 0; q < count; ++q) {
    shrink[q] = most[q];
  }
  for (std::int64_t key = 0; key < num_keys; ++key) {
    const Sum* const row = scores + key * kTile;
    for (std::int64_t q = 0; q < count; ++q) {
      const Sum score = row[q] * factor;
      most[q] = most[q] > score ? most[q] : score;
    }
  }
  for (std::int64_t q = 0; q < count; ++q) {
    shrink[q] = exponential(shrink[q] - most[q]);
    total[q] *= shrink[q];
  }
  for (std::int64_t key = 0; key < num_keys; ++key) {
    Sum* const row = scores + key * kTile;
    for (std::int64_t q = 0; q < count; ++q) {
      row[q] = exponential(row[q] * factor - most[q]);
      total[q] += row[q];
    }
  }
}

/// A score that no real one falls below, which leaves room for differences.
template <class Sum>
inline constexpr Sum kLeastScore = std::numeric_limits<Sum>::lowest() / 2;

/// Hides the keys [key, query] of a tile that a query does not see: those behind it, and those in
/// front of its window.
template <class Sum>
void hide_unseen(const Attention& shape, std::int64_t first_key, std::int64_t num_keys,
                 const Queries<Sum>& queries, Sum* scores) {
  constexpr Sum hidden = -std::numeric_limits<Sum>::infinity();
  for (std::int64_t key = 0; key < num_keys; ++key) {
    Sum* const row = scores + key * kTile;
    const std::int64_t before = first_key + key - queries.first;
    std::fill_n(row, std::clamp<std::int64_t>(before, 0, queries.count), hidden);
    if (shape.window > 0) {
      const std::int64_t end = std::clamp<std::int64_t>(before + shape.window, 0, queries.count);
      std::fill(row + end, row + queries.count, hidden);
    }
  }
}

/// Scales and caps the scores [key, query] of a tile.
template <class Sum>
void cap_scores(Sum* scores, std::int64_t num_keys, std::int64_t num_queries, Sum factor, Sum cap) {
  for (std::int64_t key = 0; key < num_keys; ++key) {
    for (std::int64_t q = 0; q < num_queries; ++q) {
      scores[key * kTile + q] = capped(factor * scores[key * kTile + q], cap);
    }
  }
}

/// Applies dropout to the probabilities [key, query] of a tile.
template <class Sum>
void drop(const Dropout& dropout, std::int64_t first_probability, std::int64_t seq_length,
          std::int64_t first_key, std::int64_t num_keys, const Queries<Sum>& queries, Sum* mask,
          Sum* scores) {
  for (std::int64_t q = 0; q < queries.count; ++q) {
    const std::int64_t first = first_probability + (queries.first + q) * seq_length + first_key;
    fill_mask(dropout, static_cast<std::uint64_t>(first), num_keys, mask);
    for (std::int64_t key = 0; key < num_keys; ++key) {
      scores[key * kTile + q] *= mask[key];
    }
  }
}

/// Computes the scores [key, query] of a tile. A tile of keys and queries at the same positions
/// leaves out panels in which no query sees a key: they hold anything until hide_unseen().
template <class Sum>
void multiply_scores(std::int64_t num_keys, std::int64_t num_queries, std::int64_t d,
                     const Sum* keys, const Sum* queries, bool is_diagonal, Sum* scores) {
  constexpr std::int64_t width = kPanelColumns<Sum>;
  for (std::int64_t q = 0; q < num_queries; q += width) {
    const std::int64_t seen = is_diagonal ? std::min(num_keys, q + width) : num_keys;
    multiply_packed(seen, std::min(width, num_queries - q), d, keys, queries + q * d, false,
                    scores + q, kTile);
  }
}

/// Scales the sums of earlier tiles, d elements for each query, to the largest score so far.
template <class Sum>
void shrink_sums(const Queries<Sum>& queries, std::int64_t d) {
  for (std::int64_t q = 0; q < queries.count; ++q) {
    for (std::int64_t c = 0; c < d; ++c) {
      queries.sums[q * d + c] *= queries.shrink[q];
    }
  }
}

/// Computes the forward pass of one head of one sequence.
template <class T>
void attend(const AttentionCall& call, std::int64_t place, Accumulator<T>* log_sum,
            Accumulator<T>* scratch) {
  using Sum = Accumulator<T>;
  const Attention& shape = call.shape;
  const Parts<Sum> parts(shape);
  const HeadPlace head(shape, place);
  const HeadRows<T> query_rows = head.queries<T>(shape, call.q);
  const HeadRows<T> value_rows = head.keys<T>(shape, call.v);
  const HeadRows<T> out = head.queries<T>(shape, output_rows(shape, call.out));
  const std::int64_t s = shape.seq_length;
  const std::int64_t d = shape.head_size;
  // A cap takes scaled scores.
  const auto factor = static_cast<Sum>(shape.soft_cap > 0.0 ? 1.0 : shape.scale);
  Sum* const scores = scratch + parts.scores;
  pack_rows(head.keys<T>(shape, call.k).from(0), s, d, scratch + parts.keys);
  for (std::int64_t i = 0; i < s; i += kTile) {
    const Queries<Sum> queries{i,
                               std::min(kTile, s - i),
                               scratch + parts.sums,
                               scratch + parts.most,
                               scratch + parts.total,
                               scratch + parts.shrink};
    std::fill(queries.most, queries.most + queries.count, kLeastScore<Sum>);
    std::fill(queries.total, queries.total + queries.count, Sum{0});
    pack_columns(query_rows.from(i).transposed(), d, queries.count, scratch + parts.queries);
    const std::int64_t first_tile = first_tile_seen(shape, i);
    for (std::int64_t j = first_tile; j <= i; j += kTile) {
      const std::int64_t num_keys = std::min(kTile, s - j);
      multiply_scores(num_keys, queries.count, d, scratch + parts.keys + j * d,
                      scratch + parts.queries, j == i, scores);
      if (shape.soft_cap > 0.0) {
        cap_scores(scores, num_keys, queries.count, static_cast<Sum>(shape.scale),
                   static_cast<Sum>(shape.soft_cap));
      }
      if (j == i || shape.window > 0) {
        hide_unseen(shape, j, num_keys, queries, scores);
      }
      take_exponentials(scores, num_keys, factor, queries);
      if (j > first_tile) {
        shrink_sums(queries, d);
      }
      if (shape.dropout.probability > 0.0) {
        drop(shape.dropout, head.first_probability, s, j, num_keys, queries, scratch + parts.mask,
             scores);
      }
      pack_rows<Sum>({scores, 1, kTile}, queries.count, num_keys, scratch + parts.packed);
      pack_columns(value_rows.from(j), num_keys, d, scratch + parts.values);
      multiply_tile<true>(j == i, queries.count, d, num_keys, scratch + parts.packed,
                          scratch + parts.values, j > first_tile, queries.sums, d);
    }
    for (std::int64_t q = 0; q < queries.count; ++q) {
      T* const to = out.at(i + q);
      for (std::int64_t c = 0; c < d; ++c) {
        to[c] = narrow<T>(queries.sums[q * d + c] / queries.total[q]);
      }
      log_sum[i + q] = queries.most[q] + std::log(queries.total[q]);
    }
  }
}

void attention(Backend& memory, const AttentionCall& call) {
  const Attention& shape = call.shape;
  visit_element_type(call.out.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    const Tensor scratch(memory, call.log_sum.type, Parts<Sum>(shape).size);
    for (std::int64_t place = 0; place < shape.batch * shape.heads; ++place) {
      attend<T>(call, place, elements<Sum>(call.log_sum) + place * shape.seq_length,
                elements<Sum>(scratch.buffer()));
    }
  });
}

}  // namespace

void add_attention_loops(KernelTable& loops) {
  loop_of<&Backend::attention>(loops) = attention;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
