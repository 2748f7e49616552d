// Both passes of attention for tests: shapes to try, a backend's results, and the definition.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {

inline std::int64_t attention_rows(const Attention& shape) {
  return shape.seq_length * shape.batch * shape.heads;
}
/// Returns the number of vectors of a token: its queries, then its keys, then its values.
inline std::int64_t vectors_of_token(const Attention& shape) {
  return shape.heads + 2 * shape.key_heads;
}
/// Returns the size of the queries, keys and values of all tokens.
inline std::int64_t qkv_size(const Attention& shape) {
  return shape.seq_length * shape.batch * vectors_of_token(shape) * shape.head_size;
}

inline Attention with_dropout(Attention shape) {
  shape.dropout = {.probability = 0.2, .key = 77};
  return shape;
}

/// Returns a shape with the usual scale 1/√d, and a key head for each query head if it has none.
inline Attention usual(Attention shape) {
  shape.scale = 1.0 / std::sqrt(static_cast<double>(shape.head_size));
  shape.key_heads = shape.key_heads == 0 ? shape.heads : shape.key_heads;
  return shape;
}

/// Returns shapes of attention: one query, heads of one element, tiles that end anywhere in
/// sequences and heads, several heads and sequences, heads of a larger layer, and none.
inline std::vector<Attention> plain_attention_shapes() {
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
  std::transform(shapes.begin(), shapes.end(), shapes.begin(), usual);
  return shapes;
}

/// Returns shapes of which some queries share keys, see few of them, or have capped or otherwise
/// scaled scores: each by itself, and together.
inline std::vector<Attention> special_attention_shapes() {
  const Attention two_tiles =
      usual({.seq_length = 130, .batch = 2, .heads = 1, .total_heads = 1, .head_size = 12});
  std::vector<Attention> shapes;
  // One key, a part of a tile, a tile, a little more, two tiles that end elsewhere, and all.
  for (const std::int64_t window : {1, 7, 64, 65, 100, 129, 130, 1000}) {
    shapes.push_back(two_tiles);
    shapes.back().window = window;
  }
  // Queries of one tile that see nothing of the first tile of keys which their tile needs.
  shapes.push_back(usual(
      {.seq_length = 260, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 4, .window = 20}));
  for (const auto& [heads, key_heads] : {std::pair{4, 2}, {6, 1}, {6, 3}}) {
    shapes.push_back(usual({.seq_length = 70,
                            .batch = 2,
                            .heads = heads,
                            .key_heads = key_heads,
                            .first_head = 6,
                            .total_heads = 12,
                            .head_size = 8,
                            .first_sample = 3}));
  }
  for (const double cap : {0.5, 2.0, 50.0}) {
    shapes.push_back(two_tiles);
    shapes.back().soft_cap = cap;
  }
  shapes.push_back(two_tiles);
  shapes.back().scale = 0.07;
  shapes.push_back({.seq_length = 131,
                    .batch = 2,
                    .heads = 4,
                    .key_heads = 2,
                    .total_heads = 4,
                    .head_size = 24,
                    .scale = 0.3,
                    .window = 50,
                    .soft_cap = 3.0});
  return shapes;
}

/// Returns all shapes of attention, with dropout too; of the special ones every second, and the
/// last.
inline std::vector<Attention> attention_shapes() {
  std::vector<Attention> shapes = plain_attention_shapes();
  const std::size_t num_plain = shapes.size();
  const std::vector<Attention> special = special_attention_shapes();
  shapes.insert(shapes.end(), special.begin(), special.end());
  for (std::size_t i = 0, without = shapes.size(); i < without; ++i) {
    if (i < num_plain || (without - 1 - i) % 2 == 0) {
      shapes.push_back(with_dropout(shapes[i]));
    }
  }
  return shapes;
}

/// The inputs of both passes, exact in a type.
struct AttentionInputs {
  AttentionInputs(const Attention& shape, DataType type, double deviation = 1.0)
      : qkv(random_values(qkv_size(shape), 1, type, deviation)),
        dout(random_values(attention_rows(shape) * shape.head_size, 2, type)) {}

  Values qkv;  ///< Queries, keys and values of each token [s, b, heads + 2·key_heads, d].
  Values dout;
};

struct AttentionResults {
  Values out, log_sum, dqkv;

  bool operator==(const AttentionResults&) const = default;
};

/// Queries, keys and values.
struct AttentionParts {
  VectorRows q, k, v;
};
/// Returns the parts of a buffer that has the queries, keys and values of each token.
inline AttentionParts parts_of(const Attention& shape, const Buffer& qkv) {
  const std::int64_t d = shape.head_size;
  const std::int64_t stride = vectors_of_token(shape) * d;
  const auto from = [&](std::int64_t vectors) {
    const std::int64_t first = std::min(vectors * d, qkv.size);
    return VectorRows{qkv.slice(first, qkv.size - first), stride};
  };
  return {from(0), from(shape.heads), from(shape.heads + shape.key_heads)};
}

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
    const auto [q, k, v] = parts_of(shape_, qkv_);
    backend_.attention({shape_, q, k, v, out_, log_sum_});
    compute_gradients(dqkv_);
  }
  /// Returns the gradient computed over its input.
  [[nodiscard]] Values replaced_qkv() {
    compute_gradients(qkv_);
    return memory_.get(qkv_);
  }
  [[nodiscard]] AttentionResults results() {
    return {memory_.get(out_), memory_.get(log_sum_), memory_.get(dqkv_)};
  }

 private:
  void compute_gradients(const Buffer& to) {
    const auto [q, k, v] = parts_of(shape_, qkv_);
    const auto [dq, dk, dv] = parts_of(shape_, to);
    backend_.attention_backward({shape_, q, k, v, out_, log_sum_, dout_, dq, dk, dv});
  }

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

/// Computes attention from its definition, element by element.
[[nodiscard]] AttentionResults naive_attention(const Attention& shape,
                                               const AttentionInputs& inputs);

inline void expect_near(const AttentionResults& found, const AttentionResults& expected,
                        DataType type, const Attention& shape) {
  SCOPED_TRACE(testing::Message() << name_of(type) << " s=" << shape.seq_length
                                  << " d=" << shape.head_size << " p=" << shape.dropout.probability
                                  << " heads " << shape.heads << "/" << shape.key_heads
                                  << " window " << shape.window << " cap " << shape.soft_cap);
  expect_near(found.out, expected.out, type, {.units = 64.0}, "out");
  expect_near(found.log_sum, expected.log_sum, accumulator_of(type), {.units = 64.0}, "log_sum");
  // The inner products with `out` carry its rounding into every gradient of the row.
  expect_near(found.dqkv, expected.dqkv, type, {.units = 256.0, .roundings = 8.0}, "dqkv");
}

}  // namespace ptdp
