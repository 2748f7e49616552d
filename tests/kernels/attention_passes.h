// Both passes of attention for tests: shapes to try, a backend's results, and the definition.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/philox_reference.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {

inline std::int64_t attention_rows(const Attention& shape) {
  return shape.seq_length * shape.batch * shape.heads;
}

inline Attention with_dropout(Attention shape) {
  shape.dropout = {.probability = 0.2, .key = 77};
  return shape;
}

/// Returns shapes of attention: one query, heads of one element, tiles that end anywhere in
/// sequences and heads, several heads and sequences, heads of a larger layer, and none. Each comes
/// with and without dropout.
inline std::vector<Attention> attention_shapes() {
  std::vector<Attention> shapes = {
      {.seq_length = 1, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 1},
      {.seq_length = 5, .batch = 2, .heads = 3, .total_heads = 3, .head_size = 4},
      {.seq_length = 9, .batch = 1, .heads = 2, .total_heads = 2, .head_size = 256},
      {.seq_length = 64, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 64},
      {.seq_length = 64, .batch = 1, .heads = 2, .total_heads = 2, .head_size = 16},
      {.seq_length = 65, .batch = 2, .heads = 1, .total_heads = 1, .head_size = 20},
      {.seq_length = 67, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 65},
      {.seq_length = 128, .batch = 2, .heads = 2, .total_heads = 2, .head_size = 8},
      {.seq_length = 130,
       .batch = 2,
       .heads = 1,
       .first_head = 4,
       .total_heads = 8,
       .head_size = 19,
       .first_sample = 3},
      {.seq_length = 130,
       .batch = 1,
       .heads = 2,
       .first_head = 4,
       .total_heads = 8,
       .head_size = 33,
       .first_sample = 3},
      {.seq_length = 200, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 80},
      {.seq_length = 0, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 8},
      {.seq_length = 8, .batch = 2, .heads = 0, .total_heads = 4, .head_size = 8}};
  for (std::size_t i = 0, plain = shapes.size(); i < plain; ++i) {
    shapes.push_back(with_dropout(shapes[i]));
  }
  return shapes;
}

/// The inputs of both passes, exact in a type.
struct AttentionInputs {
  AttentionInputs(const Attention& shape, DataType type, double deviation = 1.0)
      : qkv(random_values(3 * attention_rows(shape) * shape.head_size, 1, type, deviation)),
        dout(random_values(attention_rows(shape) * shape.head_size, 2, type)) {}

  Values qkv, dout;
};

struct AttentionResults {
  Values out, log_sum, dqkv;

  bool operator==(const AttentionResults&) const = default;
};

/// The results of both passes of a backend, in buffers `offset` elements after an aligned address.
class AttentionPasses {
 public:
  AttentionPasses(Backend& backend, const Attention& shape, DataType type,
                  const AttentionInputs& inputs, std::int64_t offset = 0)
      : backend_(backend),
        shape_(shape),
        memory_(backend),
        qkv_(memory_.put(type, inputs.qkv, offset)),
        out_(memory_.poison(type, attention_rows(shape) * shape.head_size, offset)),
        log_sum_(memory_.poison(accumulator_of(type), attention_rows(shape), offset)),
        dout_(memory_.put(type, inputs.dout, offset)),
        dqkv_(memory_.poison(type, qkv_.size, offset)) {}

  void compute() {
    backend_.attention(shape_, qkv_, out_, log_sum_);
    backend_.attention_backward(shape_, qkv_, out_, log_sum_, dout_, dqkv_);
  }
  /// Returns the gradient computed over its input.
  [[nodiscard]] Values replaced_qkv() {
    backend_.attention_backward(shape_, qkv_, out_, log_sum_, dout_, qkv_);
    return memory_.get(qkv_);
  }
  [[nodiscard]] AttentionResults results() {
    return {memory_.get(out_), memory_.get(log_sum_), memory_.get(dqkv_)};
  }

 private:
  Backend& backend_;
  Attention shape_;
  BuffersOf memory_;
  Buffer qkv_, out_, log_sum_, dout_, dqkv_;
};

inline AttentionResults both_passes(Backend& backend, const Attention& shape, DataType type,
                                    const AttentionInputs& inputs, std::int64_t offset = 0) {
  AttentionPasses passes(backend, shape, type, inputs, offset);
  passes.compute();
  return passes.results();
}

/// Computes attention from its definition, element by element. It is not sanitized and uses
/// pointers, since it takes most of the time of a sanitized test.
[[gnu::no_sanitize("address", "undefined")]] inline AttentionResults naive_attention(
    const Attention& shape, const AttentionInputs& inputs) {
  const std::int64_t s = shape.seq_length;
  const std::int64_t b = shape.batch;
  const std::int64_t heads = shape.heads;
  const std::int64_t d = shape.head_size;
  AttentionResults result{Values(inputs.dout.size()), Values(attention_rows(shape)),
                          Values(inputs.qkv.size())};
  const double* const qkv = inputs.qkv.data();
  const double* const dout = inputs.dout.data();
  double* const out = result.out.data();
  double* const dqkv = result.dqkv.data();
  const auto place = [&](std::int64_t i, std::int64_t n, std::int64_t h, std::int64_t which) {
    return (((i * b + n) * heads + h) * 3 + which) * d;
  };
  const double factor = 1.0 / std::sqrt(static_cast<double>(d));
  for (std::int64_t n = 0; n < b; ++n) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < s; ++i) {
        const double* const q = qkv + place(i, n, h, 0);
        const std::int64_t row = ((i * b + n) * heads + h) * d;
        Values p(i + 1);
        Values mask(i + 1);
        Values dp(i + 1);
        double sum = 0.0;
        double inner = 0.0;
        for (std::int64_t j = 0; j <= i; ++j) {
          for (std::int64_t c = 0; c < d; ++c) {
            p[j] += factor * q[c] * qkv[place(j, n, h, 1) + c];
          }
          p[j] = std::exp(p[j]);
          sum += p[j];
          const std::int64_t number =
              (((shape.first_sample + n) * shape.total_heads + shape.first_head + h) * s + i) * s +
              j;
          mask[j] = mask_reference(shape.dropout.key, shape.dropout.probability,
                                   static_cast<std::uint64_t>(number));
        }
        result.log_sum[(n * heads + h) * s + i] = std::log(sum);
        for (std::int64_t j = 0; j <= i; ++j) {
          p[j] /= sum;
          for (std::int64_t c = 0; c < d; ++c) {
            out[row + c] += p[j] * mask[j] * qkv[place(j, n, h, 2) + c];
            dp[j] += mask[j] * dout[row + c] * qkv[place(j, n, h, 2) + c];
            dqkv[place(j, n, h, 2) + c] += p[j] * mask[j] * dout[row + c];
          }
          inner += p[j] * dp[j];
        }
        for (std::int64_t j = 0; j <= i; ++j) {
          const double ds = factor * p[j] * (dp[j] - inner);
          for (std::int64_t c = 0; c < d; ++c) {
            dqkv[place(i, n, h, 0) + c] += ds * qkv[place(j, n, h, 1) + c];
            dqkv[place(j, n, h, 1) + c] += ds * q[c];
          }
        }
      }
    }
  }
  return result;
}

inline void expect_near(const AttentionResults& found, const AttentionResults& expected,
                        DataType type, const Attention& shape) {
  SCOPED_TRACE(testing::Message() << name_of(type) << " s=" << shape.seq_length << " d="
                                  << shape.head_size << " p=" << shape.dropout.probability);
  expect_near(found.out, expected.out, type, {.units = 64.0}, "out");
  expect_near(found.log_sum, expected.log_sum, accumulator_of(type), {.units = 64.0}, "log_sum");
  // The inner products with `out` carry its rounding into every gradient of the row.
  expect_near(found.dqkv, expected.dqkv, type, {.units = 256.0, .roundings = 8.0}, "dqkv");
}

}  // namespace ptdp
