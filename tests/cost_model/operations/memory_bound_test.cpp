// Tests of the memory traffic of a layer's element-wise operations.
#include "cost_model/operations/memory_bound.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

TransformerConfig small_model() {
  TransformerConfig model;
  model.num_attention_heads = 4;
  model.num_query_groups = 4;
  model.kv_channels = 2;
  model.hidden_size = 8;
  model.ffn_hidden_size = 32;
  model.seq_length = 16;
  return model;
}

// By hand, b = 2, s = 16, h = 8: A = 2·2·16·8 = 512 bytes; a = 4, t = 2: S = 2·2·2·256 = 2048
// bytes.
TEST(LayerTraffic, MatchesTheHandCount) {
  const LayerTraffic traffic = layer_traffic(small_model(), 2, 2, false);
  EXPECT_EQ(traffic.forward, Bytes(11.0 * 512 + 16.0 * 256));
  EXPECT_EQ(traffic.backward, Bytes(23.0 * 512 + 27.0 * 256));
  EXPECT_EQ(traffic.attention_forward, Bytes(4.5 * 2048));
  EXPECT_EQ(traffic.attention_backward, Bytes(5.5 * 2048));
}

// By hand: no masks of A/2 each forward; without the 7A backward; of the scores a softmax alone,
// which reads and writes them, and reads two and writes one.
TEST(LayerTraffic, OfAModelWithoutDropoutMatchesTheHandCount) {
  TransformerConfig model = small_model();
  model.dropout = false;
  const LayerTraffic traffic = layer_traffic(model, 2, 2, false);
  EXPECT_EQ(traffic.forward, Bytes(10.0 * 512 + 16.0 * 256));
  EXPECT_EQ(traffic.backward, Bytes(16.0 * 512 + 27.0 * 256));
  EXPECT_EQ(traffic.attention_forward, Bytes(2.0 * 2048));
  EXPECT_EQ(traffic.attention_backward, Bytes(3.0 * 2048));
}

TEST(LayerTraffic, GrowsWithTheElement) {
  const LayerTraffic half = layer_traffic(small_model(), 2, 2, true);
  const LayerTraffic whole = layer_traffic(small_model(), 2, 2, true, true, 4);
  EXPECT_EQ(whole.forward, 2.0 * half.forward);
  EXPECT_EQ(whole.backward, 2.0 * half.backward);
  EXPECT_EQ(whole.attention_backward, 2.0 * half.attention_backward);
}

TEST(LayerTraffic, IsSplitEntirelyBySequenceParallelism) {
  const LayerTraffic whole = layer_traffic(small_model(), 2, 1, false);
  const LayerTraffic split = layer_traffic(small_model(), 2, 4, true);
  EXPECT_EQ(split.forward, whole.forward / 4.0);
  EXPECT_EQ(split.backward, whole.backward / 4.0);
}

// By hand: a pass over one feature is 2·2·16 = 64 bytes; h = 8, queries 8, keys 4, MLP 24. Norms
// 4h, residuals 6h, rotary 2(8 + 4), transpose 2·8, gate 3·24 forward; norms 10h, residuals 6h,
// split 2(8 + 2·4), rotary 24, transpose 16, gate 5·24 backward.
TEST(LayerTraffic, OfAGatedModelWithQueryGroupsMatchesTheHandCount) {
  TransformerConfig model = small_model();
  model.num_query_groups = 2;
  model.ffn_hidden_size = 24;
  model.gated_linear_unit = true;
  model.add_bias_linear = false;
  model.position_embedding = PositionEmbedding::kRope;
  const LayerTraffic traffic = layer_traffic(model, 2, 1, false);
  EXPECT_EQ(traffic.forward, Bytes(64.0 * (10 * 8 + 24 + 16 + 72)));
  EXPECT_EQ(traffic.backward, Bytes(64.0 * (16 * 8 + 32 + 24 + 16 + 120)));
}

// By hand, A and F are 512 and 2048 bytes here, S is 4096: every operation a kernel of its own.
// By hand, with Q = K = 256 bytes on each of two ranks: biases 2(Q + 2K) and Q + 2K, norms 2(Q + K)
// and 5(Q + K).
TEST(LayerTraffic, OfSomeBiasesAndNormsOfHeadsMatchesTheHandCount) {
  TransformerConfig model = small_model();
  model.add_bias_linear = false;
  const LayerTraffic without = layer_traffic(model, 2, 2, false);
  model.add_qkv_bias = true;
  const LayerTraffic biased = layer_traffic(model, 2, 2, false);
  EXPECT_EQ(biased.forward, without.forward + Bytes(2.0 * 768));
  EXPECT_EQ(biased.backward, without.backward + Bytes(768.0));
  model.qk_layernorm = true;
  const LayerTraffic normed = layer_traffic(model, 2, 2, false);
  EXPECT_EQ(normed.forward, biased.forward + Bytes(2.0 * 512));
  EXPECT_EQ(normed.backward, biased.backward + Bytes(5.0 * 512));
}

TEST(LayerTraffic, GrowsWhereNothingIsFused) {
  const LayerTraffic fused = layer_traffic(small_model(), 2, 1, false, true);
  const LayerTraffic unfused = layer_traffic(small_model(), 2, 1, false, false);
  EXPECT_EQ(unfused.forward - fused.forward, Bytes(8.0 * 512 + 2.0 * 2048));
  EXPECT_EQ(unfused.backward, fused.backward);
  EXPECT_EQ(unfused.attention_forward - fused.attention_forward, Bytes(16.0 * 4096));
  EXPECT_EQ(unfused.attention_backward - fused.attention_backward, Bytes(17.0 * 4096));
}

TEST(MemoryBoundTime, IsBytesOverAchievedBandwidth) {
  GpuSpec gpu;
  gpu.memory_bandwidth = gigabytes_per_second(1000.0);
  gpu.memory_efficiency = 0.5;
  EXPECT_DOUBLE_EQ(memory_bound_time(Bytes(1e9), gpu).value(), 0.002);
}

}  // namespace
}  // namespace ptdp
