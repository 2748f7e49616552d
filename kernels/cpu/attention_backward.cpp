// Gradients of causal self-attention in tiles. Probabilities are recomputed from the log of their
// sums. Source: Dao et al., FlashAttention (arXiv:2205.14135), algorithm 4.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/fill_loops.h"
#include "kernels/cpu/math.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

/// Offsets of the parts of the scratch: of a head, of a tile of keys, of a tile of queries, and of
/// a pair of tiles.
template <class Sum>
struct Parts {
  explicit Parts(const Attention& shape) {
    const std::int64_t s = shape.seq_length;
    const std::int64_t d = shape.head_size;
    ScratchParts parts;
    queries = parts.take(packed_rows_size<Sum>(s, d));
    gradients = parts.take(packed_rows_size<Sum>(s, d));
    dq = parts.take(s * d);
    inner = parts.take(s);
    key_columns = parts.take(packed_columns_size<Sum>(d, kTile));
    value_columns = parts.take(packed_columns_size<Sum>(d, kTile));
    key_rows = parts.take(packed_columns_size<Sum>(kTile, d));
    // Query heads that share keys add to the gradients of all keys, one head after the other.
    const std::int64_t keys = shape.heads > shape.key_heads ? s : kTile;
    dk = parts.take(keys * d);
    dv = parts.take(keys * d);
    right = parts.take(packed_columns_size<Sum>(kTile, d));
    p = parts.take(kTile * kTile);
    dp = parts.take(kTile * kTile);
    left = parts.take(packed_rows_size<Sum>(kTile, kTile));
    mask = parts.take(kTile);
    size = parts.size();
  }

  std::int64_t queries, gradients, dq, inner, key_columns, value_columns, key_rows, dk, dv, right,
      p, dp, left, mask, size;
};

/// Rounds rows of accumulators into rows of elements.
template <class T, class Sum>
void store_rows(const Sum* from, const HeadRows<T>& to, std::int64_t first, std::int64_t count,
                std::int64_t d) {
  for (std::int64_t row = 0; row < count; ++row) {
    T* const vector = to.at(first + row);
    for (std::int64_t i = 0; i < d; ++i) {
      vector[i] = narrow<T>(from[row * d + i]);
    }
  }
}

/// Computes the gradients of one head of one sequence.
template <class T>
class HeadGradients {
 public:
  using Sum = Accumulator<T>;

  HeadGradients(const AttentionBackwardCall& call, std::int64_t place, Sum* scratch)
      : call_(call),
        shape_(call.shape),
        head_(shape_, place),
        parts_(shape_),
        queries_(head_.queries<T>(shape_, call.q)),
        dout_(head_.queries<T>(shape_, output_rows(shape_, call.dout))),
        log_sum_(elements<Sum>(call.log_sum) + place * shape_.seq_length),
        scratch_(scratch),
        factor_(static_cast<Sum>(shape_.scale)),
        group_(shape_.heads / shape_.key_heads),
        place_in_group_(head_.head % group_) {}

  /// Writes the head's gradients. Keys and values are read before their gradients are written by
  /// the last query head that shares them, and queries' gradients are written last. So gradients
  /// may replace what they belong to.
  void compute() {
    const std::int64_t s = shape_.seq_length;
    const std::int64_t d = shape_.head_size;
    const HeadRows<T> key_rows = head_.keys<T>(shape_, call_.k);
    const HeadRows<T> value_rows = head_.keys<T>(shape_, call_.v);
    begin();
    for (std::int64_t j = 0; j < s; j += kTile) {
      const std::int64_t num_keys = std::min(kTile, s - j);
      const MatrixView<T> keys = key_rows.from(j);
      const MatrixView<T> values = value_rows.from(j);
      pack_columns(keys.transposed(), d, num_keys, scratch_ + parts_.key_columns);
      pack_columns(values.transposed(), d, num_keys, scratch_ + parts_.value_columns);
      pack_columns(keys, num_keys, d, scratch_ + parts_.key_rows);
      for (std::int64_t i = j; i < end_of_queries(shape_, j + num_keys); i += kTile) {
        add_pair(i, j, num_keys);
      }
      if (place_in_group_ == group_ - 1) {
        store_rows(key_gradient(parts_.dk, j), head_.keys<T>(shape_, call_.dk), j, num_keys, d);
        store_rows(key_gradient(parts_.dv, j), head_.keys<T>(shape_, call_.dv), j, num_keys, d);
      }
    }
    store_rows(scratch_ + parts_.dq, head_.queries<T>(shape_, call_.dq), 0, s, d);
  }

 private:
  /// Packs queries and gradients of outputs as left operands. It also computes the inner products Σ
  /// out·dout, which equal Σ p·dp of each row.
  void begin() {
    const std::int64_t s = shape_.seq_length;
    const std::int64_t d = shape_.head_size;
    const HeadRows<T> out = head_.queries<T>(shape_, output_rows(shape_, call_.out));
    pack_rows(queries_.from(0), s, d, scratch_ + parts_.queries);
    pack_rows(dout_.from(0), s, d, scratch_ + parts_.gradients);
    for (std::int64_t i = 0; i < s; ++i) {
      const T* const y = out.at(i);
      const T* const dy = dout_.at(i);
      scratch_[parts_.inner + i] =
          sum_over<Sum>(d, [=](std::int64_t c) { return widen(y[c]) * widen(dy[c]); });
    }
    std::fill_n(scratch_ + parts_.mask, kTile, Sum{1});
  }

  /// Returns the gradients of a tile of keys or of values, which begins at key j.
  [[nodiscard]] Sum* key_gradient(std::int64_t part, std::int64_t j) const {
    return scratch_ + part + (group_ > 1 ? j * shape_.head_size : 0);
  }

  /// Adds what queries from i on and keys from j on contribute to all gradients.
  void add_pair(std::int64_t i, std::int64_t j, std::int64_t num_keys) {
    const std::int64_t d = shape_.head_size;
    const std::int64_t count = std::min(kTile, shape_.seq_length - i);
    Sum* const p = scratch_ + parts_.p;
    Sum* const dp = scratch_ + parts_.dp;
    Sum* const left = scratch_ + parts_.left;
    Sum* const right = scratch_ + parts_.right;
    const bool is_diagonal = i == j;
    multiply_pairs(count, num_keys, scratch_ + parts_.queries + i * d,
                   scratch_ + parts_.key_columns, is_diagonal, p);
    multiply_pairs(count, num_keys, scratch_ + parts_.gradients + i * d,
                   scratch_ + parts_.value_columns, is_diagonal, dp);
    for (std::int64_t row = 0; row < count; ++row) {
      take_gradients(i + row, j, num_keys, p + row * kTile, dp + row * kTile);
    }
    const bool accumulates = i > j || place_in_group_ > 0;
    pack_rows<Sum>({p, 1, kTile}, num_keys, count, left);
    pack_columns(dout_.from(i), count, d, right);
    // Queries of a tile at the keys' own positions see no key behind them.
    multiply_tile<false>(is_diagonal, num_keys, d, count, left, right, accumulates,
                         key_gradient(parts_.dv, j), d);
    pack_rows<Sum>({dp, 1, kTile}, num_keys, count, left);
    pack_columns(queries_.from(i), count, d, right);
    multiply_tile<false>(is_diagonal, num_keys, d, count, left, right, accumulates,
                         key_gradient(parts_.dk, j), d);
    pack_rows<Sum>({dp, kTile, 1}, count, num_keys, left);
    multiply_tile<true>(is_diagonal, count, d, num_keys, left, scratch_ + parts_.key_rows,
                        j > first_tile_seen(shape_, i), scratch_ + parts_.dq + i * d, d);
  }

  /// Computes products [query, key] of vectors of queries and of keys. A tile of keys and queries
  /// at the same positions leaves out panels in which no query sees a key.
  void multiply_pairs(std::int64_t count, std::int64_t num_keys, const Sum* of_queries,
                      const Sum* of_keys, bool is_diagonal, Sum* products) const {
    constexpr std::int64_t width = kPanelColumns<Sum>;
    const std::int64_t d = shape_.head_size;
    for (std::int64_t key = 0; key < num_keys; key += width) {
      const std::int64_t first = is_diagonal ? key / kPanelRows * kPanelRows : 0;
      multiply_packed(count - first, std::min(width, num_keys - key), d, of_queries + first * d,
                      of_keys + key * d, false, products + first * kTile + key, kTile);
    }
  }

  /// Turns a row of scores p and a row of gradients of probabilities dp into masked probabilities
  /// and gradients of unscaled scores.
  void take_gradients(std::int64_t query, std::int64_t first_key, std::int64_t num_keys, Sum* p,
                      Sum* dp) {
    const std::int64_t count = std::min(num_keys, query - first_key + 1);
    const std::int64_t unseen =
        std::clamp<std::int64_t>(first_seen(shape_, query) - first_key, 0, count);
    Sum* const mask = scratch_ + parts_.mask;
    if (shape_.dropout.probability > 0.0) {
      const std::int64_t first = head_.first_probability + query * shape_.seq_length + first_key;
      fill_mask(shape_.dropout, static_cast<std::uint64_t>(first), count, mask);
    }
    const Sum log_sum = log_sum_[query];
    const Sum inner = scratch_[parts_.inner + query];
    if (shape_.soft_cap > 0.0) {
      const auto cap = static_cast<Sum>(shape_.soft_cap);
      for (std::int64_t c = 0; c < count; ++c) {
        const Sum score = capped(p[c] * factor_, cap);
        const Sum probability = exponential(score - log_sum);
        const Sum slope = 1 - (score / cap) * (score / cap);
        dp[c] = probability * (dp[c] * mask[c] - inner) * slope * factor_;
        p[c] = probability * mask[c];
      }
    } else {
      for (std::int64_t c = 0; c < count; ++c) {
        const Sum probability = exponential(p[c] * factor_ - log_sum);
        dp[c] = probability * (dp[c] * mask[c] - inner) * factor_;
        p[c] = probability * mask[c];
      }
    }
    std::fill(p, p + unseen, Sum{0});
    std::fill(dp, dp + unseen, Sum{0});
    std::fill(p + count, p + num_keys, Sum{0});
    std::fill(dp + count, dp + num_keys, Sum{0});
  }

  const AttentionBackwardCall& call_;
  const Attention& shape_;
  HeadPlace head_;
  Parts<Sum> parts_;
  HeadRows<T> queries_;
  HeadRows<T> dout_;
  const Sum* log_sum_;
  Sum* scratch_;
  Sum factor_;
  std::int64_t group_;           ///< Number of query heads that share a key head.
  std::int64_t place_in_group_;  ///< Number of this query head among them.
};

void attention_backward(Backend& memory, const AttentionBackwardCall& call) {
  const Attention& shape = call.shape;
  visit_element_type(call.out.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    const Tensor scratch(memory, call.log_sum.type, Parts<Sum>(shape).size);
    for (std::int64_t place = 0; place < shape.batch * shape.heads; ++place) {
      HeadGradients<T>(call, place, elements<Sum>(scratch.buffer())).compute();
    }
  });
}

}  // namespace

void add_attention_backward_loops(KernelTable& loops) {
  loop_of<&Backend::attention_backward>(loops) = attention_backward;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
