// Tests of the time of attention, fused and unfused.
#include "cost_model/operations/attention.h"

#include <gtest/gtest.h>

#include "cost_model/operations/memory_bound.h"
#include "tests/cost_model/plain_scenario.h"
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

// By hand, 8 heads in 4 microbatches of which a rank has half, 32 tokens, keys of 24 features and
// values of 40: QKᵀ and PV forward, dP, dV, and dQ and dK backward; 4.5 and 5.5 passes over scores
// of two bytes with dropout, 2 and 3 without; 16 and 17 more where nothing is fused.
TEST(AttentionTime, UnfusedIsItsProductsAndItsSoftmax) {
  TransformerConfig model = small_latent_model();
  model.num_attention_heads = 8;
  model.v_head_dim = 40;
  model.seq_length = 32;
  const auto expect_passes = [&](double forward, double backward, bool is_fused) {
    Scenario scenario = plain_scenario(model);
    scenario.stack.attention = "unfused";
    scenario.stack.fused_element_wise = is_fused;
    scenario.cluster.gpu.peak_bf16 = FlopsPerSecond(kPlainFlops / 2.0);
    const AttentionTime time =
        attention_time(scenario.job.model, 4, 2, scenario.cluster.gpu, scenario.stack);
    const double scores = 16.0 * 32 * 32;
    const auto flops = [&](double width) { return 2.0 * scores * width / (kPlainFlops / 2.0); };
    const double passes = 2.0 * scores / kPlainBandwidth;
    EXPECT_NEAR(time.forward.value(), flops(24 + 40) + forward * passes, 1e-15);
    EXPECT_NEAR(time.backward.value(), flops(40 + 40 + 2 * 24) + backward * passes, 1e-15);
  };
  model.dropout = true;
  expect_passes(4.5, 5.5, true);
  model.dropout = false;
  expect_passes(2.0, 3.0, true);
  expect_passes(18.0, 20.0, false);
}

// A kernel has its own share of the peak in each pass; of several that a GPU has rates for, the
// stack names one.
TEST(AttentionTime, IsThatOfTheKernelThatTheStackNames) {
  Scenario scenario = plain_scenario(small_latent_model());  // 24 features each, 4 heads
  scenario.cluster.gpu.attention_rates = {{.kernel = "a", .forward = 0.5, .backward = 0.25},
                                          {.kernel = "b", .forward = 0.8, .backward = 0.4}};
  scenario.stack.attention = "b";
  const AttentionTime time =
      attention_time(scenario.job.model, 3, 2, scenario.cluster.gpu, scenario.stack);
  const double causal = 3.0 * 256 * 256 * 4 * (24 + 24) / 2;
  EXPECT_NEAR(time.forward.value(), causal / (0.8 * kPlainFlops), 1e-15);
  EXPECT_NEAR(time.backward.value(), 2.5 * causal / (0.4 * kPlainFlops), 1e-15);
}

}  // namespace
}  // namespace ptdp
