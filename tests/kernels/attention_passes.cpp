// Attention by its definition. This file is optimized, since the definition takes most of the time
// of tests of attention. For the same reason it is not sanitized, and uses pointers.
#include "tests/kernels/attention_passes.h"

#include "tests/kernels/philox_reference.h"

namespace ptdp {
namespace {

/// A head of one sequence. A vector of the next position lies `stride` elements further among
/// queries, keys and values, and `out_stride` elements further among outputs.
struct HeadVectors {
  const double* q;
  const double* k;
  const double* v;
  const double* dout;
  double* out;
  double* dq;
  double* dk;
  double* dv;
  std::int64_t stride;
  std::int64_t out_stride;
};

/// What a query has of each key, or of its score: d(score)/d(inner product), the softmax, the
/// dropout's factor, and the gradient of the softmax.
struct Row {
  double* slope;
  double* p;
  double* mask;
  double* dp;
};

/// Fills the exponentials of the scores of query i with keys `first` to i; returns their sum.
[[gnu::no_sanitize("address", "undefined")]] double take_scores(const Attention& shape,
                                                                const HeadVectors& head,
                                                                std::int64_t first, std::int64_t i,
                                                                const Row& row) {
  const double* const q = head.q + i * head.stride;
  double sum = 0.0;
  for (std::int64_t j = first; j <= i; ++j) {
    const double* const k = head.k + j * head.stride;
    double score = 0.0;
    for (std::int64_t c = 0; c < shape.head_size; ++c) {
      score += shape.scale * q[c] * k[c];
    }
    row.slope[j] = shape.scale;
    if (shape.soft_cap > 0.0) {
      const double part = std::tanh(score / shape.soft_cap);
      score = shape.soft_cap * part;
      row.slope[j] = shape.scale * (1.0 - part * part);
    }
    row.p[j] = std::exp(score);
    sum += row.p[j];
  }
  return sum;
}

/// Adds query i's part to its output and to all gradients, given the sum of its exponentials.
[[gnu::no_sanitize("address", "undefined")]] void add_query(std::int64_t head_size,
                                                            const HeadVectors& head,
                                                            std::int64_t first, std::int64_t i,
                                                            double sum, const Row& row) {
  const double* const q = head.q + i * head.stride;
  const double* const dout = head.dout + i * head.out_stride;
  double* const out = head.out + i * head.out_stride;
  double* const dq = head.dq + i * head.stride;
  double inner = 0.0;
  for (std::int64_t j = first; j <= i; ++j) {
    const double* const v = head.v + j * head.stride;
    double* const dv = head.dv + j * head.stride;
    row.p[j] /= sum;
    row.dp[j] = 0.0;
    for (std::int64_t c = 0; c < head_size; ++c) {
      out[c] += row.p[j] * row.mask[j] * v[c];
      row.dp[j] += row.mask[j] * dout[c] * v[c];
      dv[c] += row.p[j] * row.mask[j] * dout[c];
    }
    inner += row.p[j] * row.dp[j];
  }
  for (std::int64_t j = first; j <= i; ++j) {
    const double* const k = head.k + j * head.stride;
    double* const dk = head.dk + j * head.stride;
    const double ds = row.slope[j] * row.p[j] * (row.dp[j] - inner);
    for (std::int64_t c = 0; c < head_size; ++c) {
      dq[c] += ds * k[c];
      dk[c] += ds * q[c];
    }
  }
}

}  // namespace

AttentionResults naive_attention(const Attention& shape, const AttentionInputs& inputs) {
  const std::int64_t s = shape.seq_length;
  const std::int64_t d = shape.head_size;
  const std::int64_t vectors = vectors_of_token(shape);
  AttentionResults result{Values(inputs.dout.size()), Values(attention_rows(shape)),
                          Values(inputs.qkv.size())};
  const std::int64_t per_key = shape.key_heads == 0 ? 1 : shape.heads / shape.key_heads;
  Values slope(s);
  Values p(s);
  Values mask(s);
  Values dp(s);
  const Row row = {slope.data(), p.data(), mask.data(), dp.data()};
  for (std::int64_t n = 0; n < shape.batch; ++n) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      // Queries are vectors 0 to heads − 1 of a token, then come keys, then values.
      const std::int64_t q = (n * vectors + h) * d;
      const std::int64_t k = (n * vectors + shape.heads + h / per_key) * d;
      const std::int64_t v = k + shape.key_heads * d;
      const std::int64_t out = (n * shape.heads + h) * d;
      const double* const qkv = inputs.qkv.data();
      double* const dqkv = result.dqkv.data();
      const HeadVectors head = {
          qkv + q,  qkv + k,  qkv + v,  inputs.dout.data() + out,  result.out.data() + out,
          dqkv + q, dqkv + k, dqkv + v, shape.batch * vectors * d, shape.batch * shape.heads * d};
      const std::int64_t head_of_layer =
          (shape.first_sample + n) * shape.total_heads + shape.first_head + h;
      for (std::int64_t i = 0; i < s; ++i) {
        const std::int64_t first =
            shape.window == 0 ? 0 : std::max<std::int64_t>(0, i - shape.window + 1);
        for (std::int64_t j = first; j <= i; ++j) {
          mask[j] = mask_reference(shape.dropout.key, shape.dropout.probability,
                                   static_cast<std::uint64_t>((head_of_layer * s + i) * s + j));
        }
        const double sum = take_scores(shape, head, first, i, row);
        result.log_sum[(n * shape.heads + h) * s + i] = std::log(sum);
        add_query(d, head, first, i, sum, row);
      }
    }
  }
  return result;
}

}  // namespace ptdp
