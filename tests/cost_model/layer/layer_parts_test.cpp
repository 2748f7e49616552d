#include "cost_model/layer/layer_parts.h"

#include <gtest/gtest.h>

#include "cost_model/layer/transformer_layer.h"
#include "tests/cost_model/plain_scenario.h"

namespace ptdp {
namespace {

constexpr LayerKind kExperts = {.has_experts = true};

// Eight experts on a rank, two on each of four streams: two products forward, four backward.
TEST(LayerKernels, AreOneForEachProductOfEachExpert) {
  const Scenario scenario = plain_scenario(small_expert_model());
  const LayerKernels all = layer_kernels(scenario, {}, kExperts, {});
  EXPECT_EQ(all.forward.by_host, 30.0 + 28.0 + 2 * 8);
  EXPECT_EQ(all.forward.on_device, 30.0 + 28.0 + 2 * 2);
  EXPECT_EQ(all.backward.by_host, 60.0 + 46.0 + 4 * 8);
  EXPECT_EQ(all.backward.on_device, 60.0 + 46.0 + 4 * 2);
  EXPECT_EQ(layer_kernels(scenario, {}, {}, {}).forward.by_host, 30.0);

  // On eight ranks one expert each: 30 and 50 more than without.
  const LayerKernels one = layer_kernels(scenario, {.dp = 8, .ep = 8}, kExperts, {});
  EXPECT_EQ(one.forward.by_host, 60.0);
  EXPECT_EQ(one.backward.on_device, 110.0);
}

TEST(LayerKernels, AreThoseOfOneExpertWhereProductsAreFused) {
  Scenario scenario = plain_scenario(small_expert_model());
  scenario.stack.fused_expert_activation = true;
  scenario.stack.fp8 = Fp8Scaling::kMx;
  EXPECT_EQ(layer_kernels(scenario, {}, kExperts, {}).forward.by_host, 60.0);
}

TEST(LayerKernels, OfGraphsAreNotLaunchedByTheHost) {
  Scenario scenario = plain_scenario(small_expert_model());
  const LayerCasts casts{.forward_kernels = 3.0, .backward_kernels = 5.0};
  const auto by_host = [&](CudaGraphs graphs, LayerKind kind) {
    scenario.stack.cuda_graphs = graphs;
    const LayerKernels kernels = layer_kernels(scenario, {}, kind, casts);
    EXPECT_EQ(kernels.forward.on_device, kind.has_experts ? 30.0 + 28.0 + 4.0 + 3.0 : 33.0);
    return std::pair(kernels.forward.by_host, kernels.backward.by_host);
  };
  EXPECT_EQ(by_host(CudaGraphs::kNone, kExperts), std::pair(77.0, 143.0));
  EXPECT_EQ(by_host(CudaGraphs::kRouter, kExperts), std::pair(77.0 - 16.0, 143.0 - 12.0));
  EXPECT_EQ(by_host(CudaGraphs::kAttentionAndRouter, kExperts),
            std::pair(77.0 - 16.0 - 30.0, 143.0 - 12.0 - 60.0));
  EXPECT_EQ(by_host(CudaGraphs::kRouter, {}), std::pair(33.0, 65.0));
  EXPECT_EQ(by_host(CudaGraphs::kStep, kExperts), std::pair(0.0, 0.0));
  EXPECT_EQ(by_host(CudaGraphs::kStep, {}), std::pair(0.0, 0.0));
}

// Eight experts: 28 kernels and two products of each, again where all of them is recomputed.
TEST(RepeatedWork, IsLaunchedExpertByExpert) {
  Scenario scenario = plain_scenario(small_expert_model());
  scenario.stack.host_time_per_kernel = Seconds(1.0);
  const LayerCosts costs = layer_costs(
      scenario, {.recompute = Recompute::kSelective, .recompute_modules = {RecomputeModule::kMoe}},
      kExperts);
  EXPECT_NEAR(costs.recompute(Recompute::kSelective).total().value(), 28.0 + 2 * 8, 1e-9);
}

// 30 kernels of a millisecond each, and twice as long on slower hosts, of a layer that computes for
// next to no time.
TEST(LayerCosts, WaitForTheHostOfTheCluster) {
  Scenario scenario = plain_scenario(resolved(
      {.num_layers = 1, .hidden_size = 64, .num_attention_heads = 1, .seq_length = 64}, "model"));
  scenario.stack.host_time_per_kernel = Seconds(1e-3);
  EXPECT_NEAR(layer_costs(scenario, {}).forward.total().value(), 30e-3, 1e-12);
  scenario.cluster.launch_slowdown = 2.0;
  EXPECT_NEAR(layer_costs(scenario, {}).forward.total().value(), 60e-3, 1e-12);
  scenario.stack.cuda_graphs = CudaGraphs::kStep;
  EXPECT_EQ(layer_costs(scenario, {}).forward.launch, Seconds(0.0));
}

}  // namespace
}  // namespace ptdp
