#include "cost_model/operations/attention.h"

#include <gtest/gtest.h>

#include "cost_model/operations/memory_bound.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

// By hand: 2bs²h FLOPs of the causal half at 35 % of 989.4 TFLOP/s, 2.5 times that backward.
TEST(AttentionTime, FusedIsFlopsOverTheKernelsRate) {
  const Scenario scenario = shipped_scenario("7.5B", "dgx-h100", "megatron-core-2024");
  const AttentionTime time =
      attention_time(scenario.job.model, 2, 4, scenario.cluster.gpu, scenario.stack);
  const double forward = 2.0 * 2 * 2048.0 * 2048.0 * 4096.0 / 4 / (0.35 * 989.4e12);
  EXPECT_NEAR(time.forward.value() / forward, 1.0, 1e-12);
  EXPECT_NEAR(time.backward.value() / (2.5 * forward), 1.0, 1e-12);
}

// By hand: of 2048·2048/2 pairs those at most 512 apart, 512·2048 − 512²/2. A kernel that masks
// them saves nothing.
TEST(AttentionTime, OfAWindowIsItsShare) {
  Scenario scenario = shipped_scenario("7.5B", "dgx-h100", "megatron-core-2024");
  const auto time = [&] {
    return attention_time(scenario.job.model, 2, 4, scenario.cluster.gpu, scenario.stack);
  };
  const AttentionTime whole = time();
  scenario.job.model.window_size = 512;
  const double share = (512.0 * 2048 - 512.0 * 512 / 2) / (2048.0 * 2048 / 2);
  EXPECT_NEAR(time().forward / whole.forward, share, 1e-12);
  EXPECT_NEAR(time().backward / whole.backward, share, 1e-12);
  scenario.stack.attention = "unfused";
  const AttentionTime masked = time();
  scenario.job.model.window_size = 0;
  EXPECT_EQ(masked.forward, time().forward);
}

TEST(AttentionTime, UnfusedIsAtLeastItsSoftmaxTraffic) {
  const Scenario scenario = selene_2021("1.7B");
  const AttentionTime time =
      attention_time(scenario.job.model, 16, 1, scenario.cluster.gpu, scenario.stack);
  const LayerTraffic traffic = layer_traffic(scenario.job.model, 16, 1, false);
  EXPECT_GT(time.forward, memory_bound_time(traffic.attention_forward, scenario.cluster.gpu));
  EXPECT_GT(time.backward, memory_bound_time(traffic.attention_backward, scenario.cluster.gpu));
}

TEST(AttentionTime, UnfusedCostsFourTimesForTwiceTheSequence) {
  Scenario scenario = selene_2021("18B");
  const auto time = [&](int seq_length) {
    scenario.job.model.seq_length = seq_length;
    return attention_time(scenario.job.model, 1, 8, scenario.cluster.gpu, scenario.stack)
        .forward.value();
  };
  EXPECT_NEAR(time(8192) / time(4096), 4.0, 0.2);
}

}  // namespace
}  // namespace ptdp
