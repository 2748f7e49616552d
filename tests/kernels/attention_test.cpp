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

TEST_F(FusedAttention, EqualsTheDefinitionInEveryTypeForwardAndBackwardInPlaceToo) {
  for (const DataType type : computed_types()) {
    for (const Attention& shape : attention_shapes()) {
      const AttentionInputs inputs(shape, type);
      AttentionPasses passes(backend(), shape, type, inputs);
      passes.compute();
      const AttentionResults found = passes.results();
      expect_near(found, naive_attention(shape, inputs), type, shape);
      EXPECT_EQ(passes.replaced_qkv(), found.dqkv) << name_of(type) << " s=" << shape.seq_length;
    }
  }
}

TEST_F(FusedAttention, TakesBuffersThatBeginAnywhere) {
  const Attention shape{
      .seq_length = 128, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 8};
  for (const DataType type : computed_types()) {
    const AttentionInputs inputs(shape, type);
    expect_near(both_passes(backend(), shape, type, inputs, /*offset=*/1),
                naive_attention(shape, inputs), type, shape);
  }
}

TEST_F(FusedAttention, GivesEqualBitsEachTime) {
  const Attention plain{
      .seq_length = 128, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 64};
  for (const DataType type : computed_types()) {
    for (const Attention& shape : {plain, with_dropout(plain)}) {
      const AttentionInputs inputs(shape, type);
      EXPECT_EQ(both_passes(backend(), shape, type, inputs),
                both_passes(backend(), shape, type, inputs))
          << name_of(type);
    }
  }
}

// Heads of a layer on two ranks, and sequences of a batch on two: the bits of one rank that has
// them all, dropout included.
TEST_F(FusedAttention, GivesAHeadTheSameBitsWhoeverHoldsIt) {
  const Attention all =
      with_dropout({.seq_length = 70, .batch = 2, .heads = 4, .total_heads = 4, .head_size = 8});
  Attention part = all;
  part.heads = 2;
  part.first_head = 2;
  part.batch = 1;
  part.first_sample = 1;
  /// Returns the last quarter of every position's heads.
  const auto last = [](const Values& values, std::size_t width) {
    Values found;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i % width >= width / 4 * 3) {
        found.push_back(values[i]);
      }
    }
    return found;
  };
  for (const DataType type : computed_types()) {
    AttentionInputs inputs(all, type);
    const AttentionResults whole = both_passes(backend(), all, type, inputs);
    inputs.qkv = last(inputs.qkv, 2 * 4 * 3 * 8);
    inputs.dout = last(inputs.dout, 2 * 4 * 8);
    const AttentionResults found = both_passes(backend(), part, type, inputs);
    EXPECT_EQ(found.out, last(whole.out, 2 * 4 * 8)) << name_of(type);
    EXPECT_EQ(found.dqkv, last(whole.dqkv, 2 * 4 * 3 * 8)) << name_of(type);
  }
}

TEST_F(FusedAttention, StaysFiniteWhenScoresAreLarge) {
  const auto is_finite = testing::Truly([](double x) { return std::isfinite(x); });
  for (const DataType type : computed_types()) {
    for (const std::int64_t length : {80, 128}) {
      const Attention shape{
          .seq_length = length, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 16};
      const AttentionResults found =
          both_passes(backend(), shape, type, AttentionInputs(shape, type, /*deviation=*/30.0));
      EXPECT_THAT(found.out, testing::Each(is_finite)) << name_of(type);
      EXPECT_THAT(found.dqkv, testing::Each(is_finite)) << name_of(type);
    }
  }
}

TEST_F(FusedAttentionBackward, EqualsFiniteDifferencesWithAndWithoutDropout) {
  const Attention plain{.seq_length = 9,
                        .batch = 2,
                        .heads = 2,
                        .first_head = 2,
                        .total_heads = 4,
                        .head_size = 3,
                        .first_sample = 5};
  for (const Attention& shape : {plain, with_dropout(plain)}) {
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
