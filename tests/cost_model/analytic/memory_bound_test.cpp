#include "cost_model/analytic/memory_bound.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

TransformerConfig small_model() {
  TransformerConfig model;
  model.num_attention_heads = 4;
  model.hidden_size = 8;
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

TEST(LayerTraffic, IsSplitEntirelyBySequenceParallelism) {
  const LayerTraffic whole = layer_traffic(small_model(), 2, 1, false);
  const LayerTraffic split = layer_traffic(small_model(), 2, 4, true);
  EXPECT_EQ(split.forward, whole.forward / 4.0);
  EXPECT_EQ(split.backward, whole.backward / 4.0);
}

TEST(MemoryBoundTime, IsBytesOverAchievedBandwidth) {
  GpuSpec gpu;
  gpu.memory_bandwidth = gigabytes_per_second(1000.0);
  gpu.memory_efficiency = 0.5;
  EXPECT_DOUBLE_EQ(memory_bound_time(Bytes(1e9), gpu).value(), 0.002);
}

TEST(LossTraffic, IsFiftyTwoBytesPerLogit) {
  EXPECT_EQ(loss_traffic(10.0, 100.0), Bytes(52000.0));
}

}  // namespace
}  // namespace ptdp
