// Fused causal attention against the definition and finite differences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/attention_passes.h"
#include "tests/kernels/finite_differences.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

using FusedAttention = OnBackend;
using FusedAttentionBackward = OnBackend;

// In place is every third case, by the kernels that compute the gradients apart.
TEST_F(FusedAttention, EqualsTheDefinitionInEveryTypeForwardAndBackwardInPlaceToo) {
  int num_tried = 0;
  for_each_type_and_case(attention_shapes(), [&](DataType type, const Attention& shape) {
    const AttentionInputs inputs(shape, type);
    AttentionPasses passes(backend(), shape, type, inputs);
    passes.compute();
    const AttentionResults found = passes.results();
    expect_near(found, naive_attention(shape, inputs), type, shape);
    if (num_tried++ % 3 == 0) {
      EXPECT_EQ(passes.replaced_qkv(), found.dqkv) << name_of(type) << " s=" << shape.seq_length;
    }
  });
}

TEST_F(FusedAttention, TakesBuffersThatBeginAnywhere) {
  const Attention shape =
      usual({.seq_length = 128, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 8});
  for (const DataType type : computed_types()) {
    const AttentionInputs inputs(shape, type);
    expect_near(both_passes(backend(), shape, type, inputs, /*offset=*/1),
                naive_attention(shape, inputs), type, shape);
  }
}

TEST_F(FusedAttention, GivesEqualBitsEachTime) {
  const Attention plain = usual({.seq_length = 128,
                                 .batch = 1,
                                 .heads = 2,
                                 .key_heads = 1,
                                 .total_heads = 2,
                                 .head_size = 64});
  for (const DataType type : computed_types()) {
    for (const Attention& shape : {plain, with_dropout(plain)}) {
      const AttentionInputs inputs(shape, type);
      EXPECT_EQ(both_passes(backend(), shape, type, inputs),
                both_passes(backend(), shape, type, inputs))
          << name_of(type);
    }
  }
}

/// Returns the elements of every row of `width` that `is_kept` says are kept.
template <class IsKept>
Values kept_of_rows(const Values& values, std::int64_t width, const IsKept& is_kept) {
  Values found;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_kept(static_cast<std::int64_t>(i) % width)) {
      found.push_back(values[i]);
    }
  }
  return found;
}

// Heads of a layer on two ranks, and sequences of a batch on two: the bits of one rank that has
// them all, dropout included.
TEST_F(FusedAttention, GivesAHeadTheSameBitsWhoeverHoldsIt) {
  constexpr std::int64_t d = 8;
  const Attention all = usual(with_dropout({.seq_length = 70,
                                            .batch = 2,
                                            .heads = 4,
                                            .key_heads = 2,
                                            .total_heads = 4,
                                            .head_size = d,
                                            .window = 66}));
  Attention part = all;
  part.heads = 2;
  part.key_heads = 1;
  part.first_head = 2;
  part.batch = 1;
  part.first_sample = 1;
  /// Returns the last two queries, the last key and the last value of each last sequence.
  const auto last_vectors = [](const Values& values) {
    return kept_of_rows(values, 2 * 8 * d, [](std::int64_t i) {
      const std::int64_t vector = i / d - 8;  // of the second sequence: 4 queries, 2 keys, 2 values
      return vector == 2 || vector == 3 || vector == 5 || vector == 7;
    });
  };
  const auto last_heads = [](const Values& values) {
    return kept_of_rows(values, 2 * 4 * d, [](std::int64_t i) { return i / d >= 6; });
  };
  for (const DataType type : computed_types()) {
    AttentionInputs inputs(all, type);
    const AttentionResults whole = both_passes(backend(), all, type, inputs);
    inputs.qkv = last_vectors(inputs.qkv);
    inputs.dout = last_heads(inputs.dout);
    const AttentionResults found = both_passes(backend(), part, type, inputs);
    EXPECT_EQ(found.out, last_heads(whole.out)) << name_of(type);
    EXPECT_EQ(found.dqkv, last_vectors(whole.dqkv)) << name_of(type);
  }
}

// Queries that share keys have the bits of queries with copies of these keys. Gradients of shared
// keys and values are the sums of those of the copies.
TEST_F(FusedAttention, OfSharedKeysEqualsThatOfRepeatedKeys) {
  constexpr std::int64_t d = 16;
  const Attention grouped = usual(
      {.seq_length = 70, .batch = 2, .heads = 6, .key_heads = 2, .total_heads = 6, .head_size = d});
  Attention repeated = grouped;
  repeated.key_heads = 6;
  constexpr std::int64_t tokens = 140;
  for (const DataType type : computed_types()) {
    const AttentionInputs inputs(grouped, type);
    AttentionInputs copies = inputs;
    copies.qkv.clear();
    for (std::int64_t token = 0; token < tokens; ++token) {
      for (const std::int64_t vector :
           {0, 1, 2, 3, 4, 5, 6, 6, 6, 7, 7, 7, 8, 8, 8, 9, 9, 9}) {  // 6, 7: keys; 8, 9: values
        const auto begin = inputs.qkv.begin() + (token * 10 + vector) * d;
        copies.qkv.insert(copies.qkv.end(), begin, begin + d);
      }
    }
    const AttentionResults found = both_passes(backend(), grouped, type, inputs);
    const AttentionResults expected = both_passes(backend(), repeated, type, copies);
    EXPECT_EQ(found.out, expected.out) << name_of(type);
    EXPECT_EQ(found.log_sum, expected.log_sum) << name_of(type);
    const auto queries = [](std::int64_t i) { return i / d < 6; };
    const auto others = [](std::int64_t i) { return i / d >= 6; };
    EXPECT_EQ(kept_of_rows(found.dqkv, 10 * d, queries),
              kept_of_rows(expected.dqkv, 18 * d, queries));
    const Values of_copies = kept_of_rows(expected.dqkv, 18 * d, others);
    Values sums(tokens * 4 * d, 0.0);
    for (std::size_t i = 0; i < of_copies.size(); ++i) {
      const auto place = static_cast<std::int64_t>(i);
      sums[place / (3 * d) * d + place % d] += of_copies[i];
    }
    expect_near_in_norm(kept_of_rows(found.dqkv, 10 * d, others), sums, type, "keys, values");
  }
}

TEST_F(FusedAttention, WithAWindowOfTheWholeSequenceHasNone) {
  const Attention all =
      usual({.seq_length = 130, .batch = 1, .heads = 2, .total_heads = 2, .head_size = 8});
  for (const DataType type : computed_types()) {
    const AttentionInputs inputs(all, type);
    const AttentionResults expected = both_passes(backend(), all, type, inputs);
    for (const std::int64_t window : {130, 131, 1 << 20}) {
      Attention windowed = all;
      windowed.window = window;
      EXPECT_EQ(both_passes(backend(), windowed, type, inputs), expected)
          << name_of(type) << " " << window;
    }
  }
}

// Each query sees itself alone, so its output is its value and its gradients are those of values.
TEST_F(FusedAttention, WithAWindowOfOneCopiesValues) {
  Attention shape =
      usual({.seq_length = 67, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 8});
  shape.window = 1;
  for (const DataType type : computed_types()) {
    const AttentionInputs inputs(shape, type);
    const AttentionResults found = both_passes(backend(), shape, type, inputs);
    const auto is_value = [](std::int64_t i) { return i >= 16; };
    EXPECT_EQ(found.out, kept_of_rows(inputs.qkv, 24, is_value)) << name_of(type);
    EXPECT_EQ(kept_of_rows(found.dqkv, 24, is_value), inputs.dout) << name_of(type);
  }
}

// Queries, keys and values in buffers of their own, with gaps between rows that nothing touches.
TEST_F(FusedAttention, TakesQueriesKeysAndValuesApart) {
  constexpr std::int64_t d = 8;
  constexpr std::int64_t tokens = 67 * 2;
  const Attention shape = usual(
      {.seq_length = 67, .batch = 2, .heads = 4, .key_heads = 2, .total_heads = 4, .head_size = d});
  for (const DataType type : computed_types()) {
    const AttentionInputs inputs(shape, type);
    const AttentionResults expected = both_passes(backend(), shape, type, inputs);
    /// Returns vectors `first` to `end` of all tokens, each row followed by `gap` sevens.
    const auto spread = [&](const Values& qkv, std::int64_t first, std::int64_t end,
                            std::int64_t gap) {
      Values rows;
      for (std::int64_t token = 0; token < tokens; ++token) {
        const auto begin = qkv.begin() + token * 8 * d;
        rows.insert(rows.end(), begin + first * d, begin + end * d);
        rows.insert(rows.end(), gap, 7.0);
      }
      return rows;
    };
    const Values none(inputs.qkv.size(), 7.0);
    const auto rows_of = [&](const Values& qkv, std::int64_t first, std::int64_t end,
                             std::int64_t gap) {
      return VectorRows{put(type, spread(qkv, first, end, gap)), (end - first) * d + gap};
    };
    const VectorRows q = rows_of(inputs.qkv, 0, 4, 3);
    const VectorRows k = rows_of(inputs.qkv, 4, 6, 8);
    const VectorRows v = rows_of(inputs.qkv, 6, 8, 0);
    const VectorRows dq = rows_of(none, 0, 4, 8);
    const VectorRows dk = rows_of(none, 4, 6, 1);
    const Buffer out = poison(type, attention_rows(shape) * d);
    const Buffer log_sum = poison(accumulator_of(type), attention_rows(shape));
    backend().attention({shape, q, k, v, out, log_sum});
    backend().attention_backward(
        {shape, q, k, v, out, log_sum, put(type, inputs.dout), dq, dk, /*dv=*/v});
    EXPECT_EQ(get(out), expected.out) << name_of(type);
    EXPECT_EQ(get(dq.elements), spread(expected.dqkv, 0, 4, 8)) << name_of(type);
    EXPECT_EQ(get(dk.elements), spread(expected.dqkv, 4, 6, 1)) << name_of(type);
    EXPECT_EQ(get(v.elements), spread(expected.dqkv, 6, 8, 0)) << name_of(type);
  }
}

TEST_F(FusedAttention, StaysFiniteWhenScoresAreLarge) {
  const auto is_finite = testing::Truly([](double x) { return std::isfinite(x); });
  for (const DataType type : computed_types()) {
    for (const std::int64_t length : {80, 128}) {
      const Attention shape =
          usual({.seq_length = length, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 16});
      const AttentionResults found =
          both_passes(backend(), shape, type, AttentionInputs(shape, type, /*deviation=*/30.0));
      EXPECT_THAT(found.out, testing::Each(is_finite)) << name_of(type);
      EXPECT_THAT(found.dqkv, testing::Each(is_finite)) << name_of(type);
    }
  }
}

TEST_F(FusedAttentionBackward, EqualsFiniteDifferencesOfEveryKind) {
  const Attention plain = usual({.seq_length = 9,
                                 .batch = 2,
                                 .heads = 2,
                                 .first_head = 2,
                                 .total_heads = 4,
                                 .head_size = 3,
                                 .first_sample = 5});
  Attention special = plain;
  special.key_heads = 1;
  special.scale = 0.8;
  special.window = 4;
  special.soft_cap = 1.5;
  for (const Attention& shape : {plain, with_dropout(plain), special, with_dropout(special)}) {
    AttentionInputs inputs(shape, widest_type());
    const Values found = both_passes(backend(), shape, widest_type(), inputs).dqkv;
    expect_gradient(
        found, Values(inputs.qkv),
        [&](const Values& moved) {
          inputs.qkv = moved;
          return dot(naive_attention(shape, inputs).out, inputs.dout);
        },
        "dqkv");
  }
}

}  // namespace
}  // namespace ptdp
