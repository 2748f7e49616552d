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
    dk = parts.take(kTile * d);
    dv = parts.take(kTile * d);
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
void store_rows(const Sum* from, std::int64_t stride, std::int64_t count, std::int64_t d, T* to) {
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t i = 0; i < d; ++i) {
      to[row * stride + i] = narrow<T>(from[row * d + i]);
    }
  }
}

/// Computes the gradients of one head of one sequence.
template <class T>
class HeadGradients {
 public:
  using Sum = Accumulator<T>;

  HeadGradients(const Attention& shape, std::int64_t place, const T* qkv, const T* dout,
                const Sum* log_sum, Sum* scratch)
      : shape_(shape),
        layout_(shape, place),
        parts_(shape),
        qkv_(qkv),
        dout_(dout),
        log_sum_(log_sum),
        scratch_(scratch),
        factor_(static_cast<Sum>(1.0 / std::sqrt(static_cast<double>(shape.head_size)))) {}

  /// Writes the head's gradients to dqkv, which may be qkv. Keys and values of a tile are read
  /// before their gradients are written, and queries' gradients are written last.
  void compute(const T* out, T* dqkv) {
    const std::int64_t s = shape_.seq_length;
    const std::int64_t d = layout_.d;
    begin(out);
    for (std::int64_t j = 0; j < s; j += kTile) {
      const std::int64_t num_keys = std::min(kTile, s - j);
      const MatrixView<T> keys = layout_.rows_of_qkv(qkv_, 1, j);
      const MatrixView<T> values = layout_.rows_of_qkv(qkv_, 2, j);
      pack_columns(keys.transposed(), d, num_keys, scratch_ + parts_.key_columns);
      pack_columns(values.transposed(), d, num_keys, scratch_ + parts_.value_columns);
      pack_columns(keys, num_keys, d, scratch_ + parts_.key_rows);
      for (std::int64_t i = j; i < s; i += kTile) {
        add_pair(i, j, num_keys);
      }
      T* const to = dqkv + layout_.first_qkv + j * layout_.qkv_stride;
      store_rows(scratch_ + parts_.dk, layout_.qkv_stride, num_keys, d, to + d);
      store_rows(scratch_ + parts_.dv, layout_.qkv_stride, num_keys, d, to + 2 * d);
    }
    store_rows(scratch_ + parts_.dq, layout_.qkv_stride, s, d, dqkv + layout_.first_qkv);
  }

 private:
  /// Packs queries and gradients of outputs as left operands. It also computes the inner products Σ
  /// out·dout, which equal Σ p·dp of each row.
  void begin(const T* out) {
    const std::int64_t s = shape_.seq_length;
    const std::int64_t d = layout_.d;
    pack_rows(layout_.rows_of_qkv(qkv_, 0, 0), s, d, scratch_ + parts_.queries);
    pack_rows(layout_.rows_of_out(dout_, 0), s, d, scratch_ + parts_.gradients);
    for (std::int64_t i = 0; i < s; ++i) {
      const T* const y = layout_.rows_of_out(out, i).data;
      const T* const dy = layout_.rows_of_out(dout_, i).data;
      scratch_[parts_.inner + i] =
          sum_over<Sum>(d, [=](std::int64_t c) { return widen(y[c]) * widen(dy[c]); });
    }
    std::fill_n(scratch_ + parts_.mask, kTile, Sum{1});
  }

  /// Adds what queries from i on and keys from j on contribute to all gradients.
  void add_pair(std::int64_t i, std::int64_t j, std::int64_t num_keys) {
    const std::int64_t d = layout_.d;
    const std::int64_t count = std::min(kTile, shape_.seq_length - i);
    Sum* const p = scratch_ + parts_.p;
    Sum* const dp = scratch_ + parts_.dp;
    Sum* const left = scratch_ + parts_.left;
    Sum* const right = scratch_ + parts_.right;
    multiply_packed(count, num_keys, d, scratch_ + parts_.queries + i * d,
                    scratch_ + parts_.key_columns, false, p, kTile);
    multiply_packed(count, num_keys, d, scratch_ + parts_.gradients + i * d,
                    scratch_ + parts_.value_columns, false, dp, kTile);
    for (std::int64_t row = 0; row < count; ++row) {
      take_gradients(i + row, j, num_keys, p + row * kTile, dp + row * kTile);
    }
    const bool accumulates = i > j;
    pack_rows<Sum>({p, 1, kTile}, num_keys, count, left);
    pack_columns(layout_.rows_of_out(dout_, i), count, d, right);
    multiply_packed(num_keys, d, count, left, right, accumulates, scratch_ + parts_.dv, d);
    pack_rows<Sum>({dp, 1, kTile}, num_keys, count, left);
    pack_columns(layout_.rows_of_qkv(qkv_, 0, i), count, d, right);
    multiply_packed(num_keys, d, count, left, right, accumulates, scratch_ + parts_.dk, d);
    pack_rows<Sum>({dp, kTile, 1}, count, num_keys, left);
    multiply_packed(count, d, num_keys, left, scratch_ + parts_.key_rows, j > 0,
                    scratch_ + parts_.dq + i * d, d);
  }

  /// Turns a row of scores p and a row of gradients of probabilities dp into masked probabilities
  /// and gradients of unscaled scores.
  void take_gradients(std::int64_t query, std::int64_t first_key, std::int64_t num_keys, Sum* p,
                      Sum* dp) {
    const std::int64_t count = std::min(num_keys, query - first_key + 1);
    Sum* const mask = scratch_ + parts_.mask;
    if (shape_.dropout.probability > 0.0) {
      const std::int64_t first = layout_.first_probability + query * shape_.seq_length + first_key;
      fill_mask(shape_.dropout, static_cast<std::uint64_t>(first), count, mask);
    }
    const Sum log_sum = log_sum_[query];
    const Sum inner = scratch_[parts_.inner + query];
    for (std::int64_t c = 0; c < count; ++c) {
      const Sum probability = exponential(p[c] * factor_ - log_sum);
      dp[c] = probability * (dp[c] * mask[c] - inner) * factor_;
      p[c] = probability * mask[c];
    }
    std::fill(p + count, p + num_keys, Sum{0});
    std::fill(dp + count, dp + num_keys, Sum{0});
  }

  const Attention& shape_;
  HeadLayout layout_;
  Parts<Sum> parts_;
  const T* qkv_;
  const T* dout_;
  const Sum* log_sum_;
  Sum* scratch_;
  Sum factor_;
};

void attention_backward(Backend& memory, const Attention& shape, Buffer qkv, Buffer out,
                        Buffer log_sum, Buffer dout, Buffer dqkv) {
  visit_element_type(qkv.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    const Tensor scratch(memory, log_sum.type, Parts<Sum>(shape).size);
    for (std::int64_t place = 0; place < shape.batch * shape.heads; ++place) {
      HeadGradients<T> head(shape, place, elements<T>(qkv), elements<T>(dout),
                            elements<Sum>(log_sum) + place * shape.seq_length,
                            elements<Sum>(scratch.buffer()));
      head.compute(elements<T>(out), elements<T>(dqkv));
    }
  });
}

}  // namespace

void add_attention_backward_loops(KernelTable& loops) {
  loop_of<&Backend::attention_backward>(loops) = attention_backward;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
