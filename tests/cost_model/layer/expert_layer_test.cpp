// Tests of layers with experts: compute, dispatch and volume.
#include "cost_model/layer/expert_layer.h"

#include <gtest/gtest.h>

#include <utility>

#include "cost_model/inputs/rank_grid.h"
#include "cost_model/network/collectives.h"
#include "cost_model/network/expert_dispatch.h"
#include "tests/cost_model/plain_scenario.h"

namespace ptdp {
namespace {

// 2·256 tokens visit two of eight experts: 1024 rows on two experts of 64 to 2·128 and back to 64.
TEST(ExpertCosts, AreThoseOfRouterAndExpertsByHand) {
  const Scenario scenario = plain_scenario(small_expert_model());
  const ExpertCosts costs = expert_costs(scenario, {.dp = 4, .ep = 4, .micro_batch_size = 2});
  const double flops = 2.0 * 512 * 64 * 8 + 2.0 * 1024 * (64 * 256 + 128 * 64);
  EXPECT_NEAR(costs.products.forward.value() * kPlainFlops / flops, 1.0, 1e-12);
  EXPECT_NEAR(costs.products.input_gradient.value() * kPlainFlops / flops, 1.0, 1e-12);
  EXPECT_NEAR(costs.products.weight_gradient.value() * kPlainFlops / flops, 1.0, 1e-12);

  // Tokens out and outputs back, each read and written: 2(512 + 1024) rows of 64; sorted by expert
  // and back, 4·1024 rows; the gate reads two rows of 128 and writes one. Router: six passes.
  const double router = 6.0 * 4 * 512 * 8;
  const double rows = 2.0 * (2 * (512 + 1024) + 4 * 1024) * 64;
  EXPECT_NEAR(costs.element_wise_forward.value() * kPlainBandwidth,
              router + rows + 2.0 * 3 * 1024 * 128, 1e-3);
  EXPECT_NEAR(costs.element_wise_backward.value() * kPlainBandwidth,
              router + rows + 2.0 * (1024 + 512) * 64 + 2.0 * 5 * 1024 * 128, 1e-3);
}

// On one GPU rows come sorted by expert.
TEST(ExpertCosts, SortNothingThatComesFromNobodyElse) {
  const Scenario scenario = plain_scenario(small_expert_model());
  const ExpertCosts one = expert_costs(scenario, {.micro_batch_size = 2});
  EXPECT_NEAR(one.element_wise_forward.value() * kPlainBandwidth,
              6.0 * 4 * 512 * 8 + 2.0 * 2 * (512 + 1024) * 64 + 2.0 * 3 * 1024 * 128, 1e-3);
  EXPECT_EQ(one.communication, Seconds(0.0));
  for (const ExpertDispatch dispatch :
       {ExpertDispatch::kAllGather, ExpertDispatch::kHierarchical}) {
    Scenario other = scenario;
    other.stack.expert_dispatch = dispatch;
    EXPECT_EQ(expert_costs(other, {.dp = 8}).communication, Seconds(0.0));
  }
}

// One copy of a token arrives at each GPU that it visits: 4(1 − C(6, 2)/C(8, 2)) = 13/7 of two
// experts on each of four. The copy is laid out in the rows of experts, and the result back: each
// is read and written.
TEST(ExpertCosts, PermuteWhatArrivesByHierarchicalDispatch) {
  Scenario scenario = plain_scenario(small_expert_model());
  scenario.stack.expert_dispatch = ExpertDispatch::kHierarchical;
  const ExpertCosts costs = expert_costs(scenario, {.dp = 4, .ep = 4, .micro_batch_size = 2});
  const double router = 6.0 * 4 * 512 * 8;
  const double rows = 2.0 * 2 * (512 * 13.0 / 7.0 + 1024) * 64;
  EXPECT_NEAR(costs.element_wise_forward.value() * kPlainBandwidth,
              router + rows + 2.0 * 3 * 1024 * 128, 1e-3);
}

// 1024 rows of 64 numbers of 2 bytes are read and written to pad them, and again to cut them. A
// third kernel pads the weights of their visits (TEGroupedMLP.forward).
TEST(ExpertCosts, PadRowsForProductsInEightBits) {
  Scenario scenario = plain_scenario(small_expert_model());
  const ParallelConfig config{.dp = 4, .ep = 4, .micro_batch_size = 2};
  const auto costs = [&](bool pads) {
    scenario.stack.pads_expert_rows = pads;
    const ExpertCosts all = expert_costs(scenario, config);
    return std::pair(all.element_wise_forward, all.element_wise_backward);
  };
  const auto kernels = [&](bool pads) {
    scenario.stack.pads_expert_rows = pads;
    const LayerKernels all = expert_kernels(scenario, config);
    return std::pair(all.forward.by_host, all.backward.by_host);
  };
  EXPECT_EQ(costs(true), costs(false));  // nothing in 16 bits
  scenario.stack.fp8 = Fp8Scaling::kMx;
  const double moved = 4.0 * 2 * 1024 * 64 / kPlainBandwidth;
  EXPECT_NEAR((costs(true).first - costs(false).first).value(), moved, 1e-15);
  EXPECT_NEAR((costs(true).second - costs(false).second).value(), moved, 1e-15);
  EXPECT_EQ(kernels(true).first, kernels(false).first + 3.0);
  EXPECT_EQ(kernels(true).second, kernels(false).second + 3.0);
  scenario.stack.expert_dispatch = ExpertDispatch::kHierarchical;
  EXPECT_EQ(costs(true), costs(false));
  EXPECT_EQ(kernels(true), kernels(false));
}

// The gate's three passes over 1024 rows of 128 of 2 bytes forward and five backward are gone: of
// SwiGLU in MX formats, which the kernels are for.
TEST(ExpertCosts, HaveNoActivationWhereProductsDoIt) {
  Scenario scenario = plain_scenario(small_expert_model());
  scenario.stack.pads_expert_rows = false;
  scenario.stack.fp8 = Fp8Scaling::kMx;
  const ParallelConfig config{.dp = 4, .ep = 4, .micro_batch_size = 2};
  const ExpertCosts apart = expert_costs(scenario, config);
  scenario.stack.fused_expert_activation = true;
  const ExpertCosts fused = expert_costs(scenario, config);
  const double pass = 2.0 * 1024 * 128 / kPlainBandwidth;
  EXPECT_NEAR((apart.element_wise_forward - fused.element_wise_forward).value(), 3.0 * pass, 1e-15);
  EXPECT_NEAR((apart.element_wise_backward - fused.element_wise_backward).value(), 5.0 * pass,
              1e-15);
  EXPECT_EQ(fused.activation_forward, Seconds(0.0));
  scenario.stack.fp8 = Fp8Scaling::kDelayed;
  EXPECT_EQ(expert_costs(scenario, config).activation_forward, apart.activation_forward);
  scenario.stack.fp8.reset();
  EXPECT_EQ(expert_costs(scenario, config).activation_forward, apart.activation_forward);
  scenario.stack.fp8 = Fp8Scaling::kMx;
  scenario.job.model.gated_linear_unit = false;
  EXPECT_GT(expert_costs(scenario, config).activation_forward, Seconds(0.0));
}

// Whichever rank has the experts, all ranks of a stage share all visits. With even loads tp·dp
// ranks together do the FLOPs of one that has all tokens.
TEST(ExpertCosts, ShareTheSameWork) {
  const Scenario scenario = plain_scenario(small_expert_model());
  const ExpertCosts whole = expert_costs(scenario, {.micro_batch_size = 8});
  for (const auto& [ep, etp] : {std::pair{1, 1}, {8, 1}, {2, 2}, {4, 2}, {1, 4}}) {
    const ExpertCosts part = expert_costs(
        scenario,
        {.tp = 4, .dp = 4, .ep = ep, .etp = etp, .micro_batch_size = 2, .sequence_parallel = true});
    EXPECT_NEAR(16.0 * part.products.forward.value() / whole.products.forward.value(), 1.0, 1e-12)
        << ep << ' ' << etp;
  }
}

TEST(ExpertCosts, CommunicateTwoDispatchesAndWhatAnExpertsGpusShare) {
  const Scenario scenario = plain_scenario(small_expert_model());
  const ClusterSpec& cluster = scenario.cluster;
  ParallelConfig config{
      .tp = 2, .dp = 8, .ep = 8, .micro_batch_size = 2, .sequence_parallel = true};
  // 2·256/2 tokens on a rank, twice 2·64 bytes each.
  const Bytes sent(2.0 * 256 * 2 * 64);
  EXPECT_EQ(
      expert_costs(scenario, config).communication,
      2.0 * all_to_all_time(sent, place_expert_group(config, ExpertDimension::kExpert, cluster),
                            cluster));
  config.etp = 2;
  const GroupPlacement experts = place_expert_group(config, ExpertDimension::kExpert, cluster);
  const GroupPlacement sharers = place_expert_group(config, ExpertDimension::kTensor, cluster);
  ASSERT_EQ(sharers.size, 2);
  EXPECT_NEAR(expert_costs(scenario, config).communication.value(),
              (2.0 * all_to_all_time(sent, experts, cluster) +
               all_gather_time(2.0 * sent, sharers, cluster) +
               reduce_scatter_time(2.0 * sent, sharers, cluster))
                  .value(),
              1e-15);
}

// Every rank gathers all tokens of its group, each once; loads do not matter.
TEST(ExpertCosts, GatherTokensOverBothDimensions) {
  Scenario scenario = plain_scenario(small_expert_model());
  scenario.stack.expert_dispatch = ExpertDispatch::kAllGather;
  scenario.job.model.moe_load_imbalance = 1.5;
  const ParallelConfig config{
      .tp = 2, .dp = 8, .ep = 4, .etp = 2, .micro_batch_size = 2, .sequence_parallel = true};
  const GroupPlacement group =
      place_expert_group(config, ExpertDimension::kTensorAndExpert, scenario.cluster);
  ASSERT_EQ(group.size, 8);
  const Bytes gathered(2.0 * 8 * 256 * 64);
  EXPECT_EQ(expert_costs(scenario, config).communication,
            all_gather_time(gathered, group, scenario.cluster) +
                reduce_scatter_time(gathered, group, scenario.cluster));
}

// Room for 1.5 times the mean, and 1.5 times the mean on the busiest rank, cost the same: rows of
// experts, their messages and passes; neither the router nor what the sender permutes.
TEST(ExpertCosts, GrowByTheLoadOfTheBusiestRank) {
  const Scenario even = plain_scenario(small_expert_model());
  Scenario capacity = even;
  capacity.job.model.moe_expert_capacity_factor = 1.5;
  Scenario imbalance = even;
  imbalance.job.model.moe_load_imbalance = 1.5;
  const ParallelConfig config{.dp = 4, .ep = 4, .micro_batch_size = 2};
  const ExpertCosts base = expert_costs(even, config);
  for (const Scenario& scenario : {capacity, imbalance}) {
    const ExpertCosts costs = expert_costs(scenario, config);
    const double experts = 2.0 * 1024 * (64 * 256 + 128 * 64) / kPlainFlops;
    EXPECT_NEAR((costs.products.forward - base.products.forward).value(), 0.5 * experts, 1e-15);
    EXPECT_NEAR((costs.element_wise_forward - base.element_wise_forward).value(),
                0.5 * (2.0 * 4 * 1024 * 64 + 2.0 * 3 * 1024 * 128) / kPlainBandwidth, 1e-15);
    const GroupPlacement group =
        place_expert_group(config, ExpertDimension::kExpert, scenario.cluster);
    EXPECT_EQ(costs.communication,
              2.0 * all_to_all_time(Bytes(1.5 * 2 * 1024 * 64), group, scenario.cluster));
  }
}

// Twice, there and back: 7/8 of two visits of 256 tokens of 64 elements; of two that share experts
// half of what they gather, and of what they reduce, on top; or 15 other ranks' tokens.
TEST(ExpertVolume, IsWhatTheCollectivesSend) {
  Scenario scenario = plain_scenario(small_expert_model());
  ParallelConfig config{
      .tp = 2, .dp = 8, .ep = 8, .micro_batch_size = 2, .sequence_parallel = true};
  const double visits = 2.0 * 256 * 2 * 64;
  EXPECT_DOUBLE_EQ(expert_volume(scenario, config).value(), 2.0 * 7 / 8 * visits);
  config.etp = 2;
  EXPECT_DOUBLE_EQ(expert_volume(scenario, config).value(), 2.0 * (7.0 / 8 + 1.0) * visits);
  scenario.stack.expert_dispatch = ExpertDispatch::kAllGather;
  EXPECT_DOUBLE_EQ(expert_volume(scenario, config).value(), 2.0 * 15 * 2 * 256 * 64);
  scenario.stack.expert_dispatch = ExpertDispatch::kHierarchical;
  config.etp = 1;
  // On one node: a copy to each of the GPUs visited, 8(1 − 6/8) = 2 of 8 experts on as many.
  EXPECT_NEAR(expert_volume(scenario, config).value(), 2.0 * visits, 1e-6);
  for (const ExpertDispatch dispatch :
       {ExpertDispatch::kAllToAll, ExpertDispatch::kAllGather, ExpertDispatch::kHierarchical}) {
    scenario.stack.expert_dispatch = dispatch;
    EXPECT_EQ(expert_volume(scenario, {.dp = 8}), Bytes(0.0));
  }
}

}  // namespace
}  // namespace ptdp
