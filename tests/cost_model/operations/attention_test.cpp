// Tests of the time of attention, fused and unfused.
#include "cost_model/operations/attention.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "cost_model/operations/memory_bound.h"
#include "tests/cost_model/plain_scenario.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

// By hand: 2bs²h FLOPs of the causal half, 2.5 times that backward. An H200 measured 254.7 and
// 216.4 TFLOP/s of FlashAttention-2 between products, 485.3 and 403.1 of cuDNN (4096 tokens, heads
// of 128; golden/attention_in_steps.csv). An H100 has 0.918/0.86 of that, of 989.4 TFLOP/s.
TEST(AttentionTime, FusedIsFlopsOverTheKernelsRate) {
  Scenario scenario = shipped_scenario("7.5B", "dgx-h100", "megatron-core-2024");
  scenario.job.model.seq_length = 4096;
  const auto expect_shares = [&](const char* kernel, double forward, double backward) {
    scenario.stack.attention = kernel;
    const AttentionTime time =
        attention_time(scenario.job.model, 2, 4, scenario.cluster.gpu, scenario.stack);
    const double causal = 2.0 * 2 * 4096.0 * 4096.0 * 4096.0 / 4 / 989.4e12;
    EXPECT_NEAR(time.forward.value() * forward / causal, 1.0, 0.01) << kernel;
    EXPECT_NEAR(time.backward.value() * backward / (2.5 * causal), 1.0, 0.01) << kernel;
  };
  expect_shares("flash-2", 0.2748, 0.2335);
  expect_shares("cudnn", 0.5236, 0.4349);
}

// By hand: 2 sequences of 4096 tokens, 8 of 32 heads of 128. QKᵀ and PV are 2s²·128 FLOPs each and
// head, of which a fused kernel does half. It reads Q, K and V and writes O, of s·8·128 elements
// each; backward it reads these and the gradient of O, and writes three gradients. An unfused one
// has six products, twice as many backward, and softmax passes over 2·8 scores of s².
TEST(AttentionWork, CountsWhatIsTimed) {
  Scenario scenario = shipped_scenario("7.5B", "dgx-h100", "megatron-core-2024");
  scenario.job.model.seq_length = 4096;
  const double s = 4096.0;
  const double tensor = 2.0 * 2 * s * 8 * 128;
  const AttentionWork fused = attention_work(scenario.job.model, 2, 4, scenario.stack);
  EXPECT_EQ(fused.forward.flops.value(), 2 * 8 * 2.0 * s * s * 128);
  EXPECT_EQ(fused.backward.flops.value(), 2.5 * 2 * 8 * 2.0 * s * s * 128);
  EXPECT_EQ(fused.forward.bytes.value(), 4 * tensor);
  EXPECT_EQ(fused.backward.bytes.value(), 8 * tensor);
  scenario.stack.attention = "unfused";
  const AttentionWork unfused = attention_work(scenario.job.model, 2, 4, scenario.stack);
  const double scores = 2.0 * 2 * 8 * s * s;
  const LayerTraffic softmax = layer_traffic(scenario.job.model, 2, 4, false, scenario.stack);
  EXPECT_EQ(unfused.forward.flops.value(), 2 * 8 * 4.0 * s * s * 128);
  EXPECT_EQ(unfused.backward.flops.value(), 2 * 8 * 8.0 * s * s * 128);
  EXPECT_EQ(unfused.forward.bytes.value(),
            2 * scores + 4 * tensor + softmax.attention_forward.value());
  EXPECT_EQ(unfused.backward.bytes.value(),
            4 * scores + 8 * tensor + softmax.attention_backward.value());
}

// 361.3 of 574.7 TFLOP/s backward, also where a GPU's own times correct the rate.
TEST(AttentionTime, IsSlowerBackwardWhereResultsRepeat) {
  for (const char* cluster : {"dgx-h100", "hgx-h200-measured"}) {
    Scenario scenario = shipped_scenario("7.5B", cluster, "megatron-core-2025");
    const auto time = [&] {
      return attention_time(scenario.job.model, 2, 4, scenario.cluster.gpu, scenario.stack);
    };
    const AttentionTime usual = time();
    scenario.stack.deterministic = true;
    EXPECT_EQ(time().forward, usual.forward);
    EXPECT_NEAR(time().backward / usual.backward, 574.7 / 361.3, 1e-9) << cluster;
  }
}

// By hand: 3 sequences of 256 tokens on 2 of 4 heads of 24. At its half-rate length of 256 tokens a
// kernel takes twice as long as at its rate, at 512 1.5 times, and each pass starts once. Backward
// that length is 512.
TEST(AttentionTime, OfShortSequencesIsAtALowerRate) {
  Scenario scenario = plain_scenario(small_latent_model());
  scenario.stack.attention = "a";
  scenario.cluster.gpu.attention_rates = {{.kernel = "a",
                                           .forward = 0.5,
                                           .backward = 0.25,
                                           .half_rate_length = 256.0,
                                           .backward_half_rate_length = 512.0,
                                           .start = Seconds(3e-6)}};
  const auto expect_factors = [&](int tokens, double forward, double backward) {
    scenario.job.model.seq_length = tokens;
    const AttentionTime time =
        attention_time(scenario.job.model, 3, 2, scenario.cluster.gpu, scenario.stack);
    const double causal = 3.0 * tokens * tokens * 2 * (24 + 24) / kPlainFlops;
    EXPECT_NEAR(time.forward.value(), 3e-6 + forward * causal / 0.5, 1e-15);
    EXPECT_NEAR(time.backward.value(), 3e-6 + backward * 2.5 * causal / 0.25, 1e-15);
  };
  expect_factors(256, 2.0, 3.0);
  expect_factors(512, 1.5, 2.0);
}

// Heads of their own width come first, then any width, then the nearest, of two the narrower.
TEST(AttentionTime, HasTheRateOfTheHeadsWidth) {
  Scenario scenario = plain_scenario(small_latent_model());  // heads of 24
  scenario.stack.attention = "a";
  const auto expect_rate = [&](double rate, std::vector<AttentionRate> rates) {
    scenario.cluster.gpu.attention_rates = std::move(rates);
    const AttentionTime time =
        attention_time(scenario.job.model, 1, 1, scenario.cluster.gpu, scenario.stack);
    EXPECT_NEAR(256.0 * 256 * 4 * 48 / kPlainFlops / time.forward.value(), rate, 1e-12);
  };
  const auto entry = [](int width, double rate, const char* kernel = "a") {
    return AttentionRate{.kernel = kernel, .head_width = width, .forward = rate, .backward = rate};
  };
  expect_rate(0.2, {entry(0, 0.1), entry(24, 0.2), entry(25, 0.3)});
  expect_rate(0.1, {entry(25, 0.3), entry(0, 0.1), entry(23, 0.2)});
  expect_rate(0.2, {entry(32, 0.3), entry(16, 0.2), entry(24, 0.4, "b")});
  expect_rate(0.3, {entry(64, 0.2), entry(30, 0.3), entry(16, 0.4)});
}

// By hand: of 2048·2048/2 pairs those at most 512 apart, 512·2048 − 512²/2. A token sees 448 others
// instead of 1024, as in a sequence of 896. An unfused kernel saves nothing.
TEST(AttentionTime, OfAWindowIsItsShareAtTheRateOfWhatItSees) {
  Scenario scenario = shipped_scenario("7.5B", "dgx-h100", "megatron-core-2024");
  scenario.stack.attention = "a";
  scenario.cluster.gpu.attention_rates = {
      {.kernel = "a", .forward = 0.5, .backward = 0.25, .half_rate_length = 1024.0}};
  const auto time = [&] {
    return attention_time(scenario.job.model, 2, 4, scenario.cluster.gpu, scenario.stack);
  };
  const AttentionTime whole = time();
  scenario.job.model.window_size = 512;
  const double share = (512.0 * 2048 - 512.0 * 512 / 2) / (2048.0 * 2048 / 2) *
                       (1.0 + 1024.0 / 896.0) / (1.0 + 1024.0 / 2048.0);
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

// By hand, 2 of 4 heads of 16 in 3 microbatches, 256 tokens: QKᵀ, its like for positions and PV
// forward; dP, dV, and dQ and dK of both kinds backward; 2 + 5 and 3 + 3 passes over scores of two
// bytes, 4 and 5 over queries. A stack's fused kernel does not compute them.
TEST(AttentionTime, OfRelativePositionsIsUnfusedWithASecondKindOfKeys) {
  Scenario scenario = plain_scenario(small_relative_model());
  ASSERT_NE(scenario.stack.attention, "unfused");
  EXPECT_TRUE(is_unfused(scenario.job.model, scenario.stack));
  const AttentionTime time =
      attention_time(scenario.job.model, 3, 2, scenario.cluster.gpu, scenario.stack);
  const double scores = 3.0 * 2 * 256 * 256;
  const double product = 2.0 * scores * 16 / kPlainFlops;
  const double queries = 3.0 * 256 * 2 * 16;
  const auto passes = [](double elements) { return 2.0 * elements / kPlainBandwidth; };
  EXPECT_NEAR(time.forward.value(), 3 * product + passes(7 * scores + 4 * queries), 1e-15);
  EXPECT_NEAR(time.backward.value(), 6 * product + passes(6 * scores + 5 * queries), 1e-15);
  const AttentionWork work = attention_work(scenario.job.model, 3, 2, scenario.stack);
  EXPECT_EQ(work.forward.flops.value(), 3 * 2.0 * scores * 16);
  EXPECT_EQ(work.backward.flops.value(), 6 * 2.0 * scores * 16);
  scenario.job.model.position_embedding = PositionEmbedding::kNone;
  EXPECT_FALSE(is_unfused(scenario.job.model, scenario.stack));
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
