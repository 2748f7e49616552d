// Dispatch to experts behind the passes of another microbatch.
#include <gtest/gtest.h>

#include <utility>

#include "cost_model/iteration/iteration.h"
#include "cost_model/layer/expert_layer.h"
#include "cost_model/layer/transformer_layer.h"
#include "tests/cost_model/plain_scenario.h"

namespace ptdp {
namespace {

// What transformer_config.py of Megatron-Core asserts.
TEST(HidesDispatch, WhereMegatronRunsIt) {
  Scenario scenario = plain_scenario(small_expert_model());
  const ParallelConfig config{.dp = 8, .ep = 8};
  EXPECT_FALSE(hides_dispatch(scenario, config));
  scenario.stack.expert_overlap = true;
  EXPECT_TRUE(hides_dispatch(scenario, config));
  EXPECT_FALSE(hides_dispatch(scenario, {.dp = 8}));
  EXPECT_FALSE(hides_dispatch(scenario, {.pp = 2, .dp = 8, .ep = 8}));
  EXPECT_TRUE(hides_dispatch(
      scenario, {.pp = 2, .dp = 8, .ep = 8, .vpp = 2, .schedule = ScheduleKind::kInterleaved}));
  EXPECT_FALSE(hides_dispatch(scenario, {.dp = 8, .ep = 8, .recompute = Recompute::kFull}));
  scenario.job.model.mtp_num_layers = 1;  // DeepSeek-V3
  EXPECT_TRUE(hides_dispatch(scenario, config));
  scenario.job.model.mtp_num_layers = 2;
  EXPECT_FALSE(hides_dispatch(scenario, config));
  scenario.job.model.mtp_num_layers = 0;
  scenario.stack.expert_dispatch = ExpertDispatch::kAllGather;
  EXPECT_FALSE(hides_dispatch(scenario, config));
}

// Each pass's way to the experts runs behind the compute of the other pass. If both take equally
// long, a tenth is lost, because a collective takes a tenth of what it runs beside.
TEST(LayerCosts, HideTheWayToExpertsBehindTheOtherPass) {
  Scenario scenario = plain_scenario(small_expert_model());
  scenario.stack.overlap_slowdown = 0.1;
  const ParallelConfig config{.dp = 8, .ep = 8};
  const LayerKind kind{.has_experts = true};
  const auto costs_at = [&](double bandwidth) {
    scenario.cluster.nvlink.bandwidth = BytesPerSecond(bandwidth);
    scenario.stack.expert_overlap = false;
    const LayerCosts apart = layer_costs(scenario, config, kind);
    scenario.stack.expert_overlap = true;
    return std::pair(apart, layer_costs(scenario, config, kind));
  };
  scenario.cluster.nvlink.hop_latency = Seconds(0.0);
  scenario.cluster.collective_launch = Seconds(0.0);
  scenario.cluster.nccl.reset();
  scenario.cluster.nccl_within_node.reset();

  const auto [apart, behind] = costs_at(1e15);  // next to no time: all hidden
  const double sent = apart.forward.expert_parallel.value();
  EXPECT_EQ(apart.hidden_dispatch, Seconds(0.0));
  EXPECT_NEAR(behind.forward.expert_parallel.value() / sent, 0.1, 1e-12);
  EXPECT_NEAR(behind.backward.expert_parallel.value() / sent, 0.1, 1e-12);
  EXPECT_NEAR(behind.hidden_dispatch.value() / sent, 2.0 * 0.9, 1e-12);

  const auto [slow, exposed] = costs_at(1e8);  // longer than all that there is to compute
  const Seconds forward = slow.forward.compute();
  const Seconds backward = slow.backward.compute();
  EXPECT_NEAR(exposed.forward.expert_parallel.value() /
                  (slow.forward.expert_parallel - 0.9 * backward).value(),
              1.0, 1e-12);
  EXPECT_NEAR(exposed.backward.expert_parallel.value() /
                  (slow.backward.expert_parallel - 0.9 * forward).value(),
              1.0, 1e-12);
}

// The first microbatch's forward pass and the last one's backward pass have no other beside them;
// of two interleaved stages as many passes as there are of two microbatches.
TEST(IterationCost, HidesTheWayToExpertsBehindOtherMicrobatches) {
  Scenario scenario = plain_scenario(small_expert_model());
  scenario.stack.overlap_slowdown = 0.0;
  const auto exposed = [&](const ParallelConfig& config) {
    scenario.stack.expert_overlap = false;
    const Seconds all = iteration_cost({scenario, config}).expert_parallel;
    scenario.stack.expert_overlap = true;
    const LayerCosts layer = layer_costs(scenario, config, {.has_experts = true});
    EXPECT_EQ(layer.forward.expert_parallel + layer.backward.expert_parallel, Seconds(0.0));
    return iteration_cost({scenario, config}).expert_parallel / all;
  };
  scenario.cluster.nvlink.bandwidth = BytesPerSecond(1e15);
  scenario.cluster.nvlink.hop_latency = Seconds(0.0);
  scenario.cluster.collective_launch = Seconds(0.0);
  scenario.cluster.nccl.reset();
  scenario.cluster.nccl_within_node.reset();
  EXPECT_NEAR(exposed({.dp = 8, .ep = 8}), 1.0 / 8.0, 1e-12);
  EXPECT_NEAR(
      exposed({.pp = 2, .dp = 4, .ep = 4, .vpp = 2, .schedule = ScheduleKind::kInterleaved}),
      2.0 / 16.0, 1e-12);
}

}  // namespace
}  // namespace ptdp
