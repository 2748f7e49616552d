// Tests of what offloading to the host costs and saves.
#include "cost_model/iteration/offload.h"

#include <gtest/gtest.h>

#include "cost_model/iteration/iteration.h"
#include "cost_model/iteration/step_builder.h"
#include "cost_model/memory/memory.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

constexpr double kGigabyte = 1e9;

/// Megatron-Bridge's measurement (docs/training/cpu-offloading.md): Qwen3-30B-A3B with tp 2, pp 2
/// and ep 4. The source names no number of GPUs. Its 47.2 GB without offloading are the model's
/// state on 16 GPUs, the number in card.yaml of its skill on offloading. The batch is assumed: what
/// offloading adds to a step does not depend on it.
struct Measured {
  Scenario scenario = shipped_scenario("qwen3-30b-a3b", "dgx-h100", "megatron-bridge-2025",
                                       /*global_batch_size=*/8);
  ParallelConfig config{
      .tp = 2, .pp = 2, .dp = 4, .ep = 4, .sequence_parallel = true, .zero_stage = 1};

  [[nodiscard]] ParallelConfig offloaded(Offload offload) const {
    ParallelConfig result = config;
    result.offload = offload;
    return result;
  }
};

TEST(Offload, FreesTheMemoryThatMegatronBridgeMeasured) {
  const Measured run;
  const auto memory = [&](Offload offload) {
    return peak_memory({run.scenario, run.offloaded(offload)}).value() / kGigabyte;
  };
  const double saved = memory(Offload::kNone) - memory(Offload::kOptimizer);
  EXPECT_NEAR(saved, 15.3, 0.1);  // GB, published
}

TEST(Offload, OfTheOptimizerTakesAboutAsLongAsMegatronBridgeMeasured) {
  const Measured run;
  const auto time = [&](Offload offload) {
    return iteration_cost({run.scenario, run.offloaded(offload)}).total();
  };
  const Seconds more = time(Offload::kOptimizer) - time(Offload::kNone);
  EXPECT_NEAR(more.value() / (3.877 - 0.996), 1.0, 0.15);  // published, with transfers overlapped
}

// By hand: a shard of 4 000 000 parameters moves 28 bytes of each through 20.3 GB/s of memory; over
// a link of 1 GB/s 4 bytes of each take longer.
TEST(Offload, OfTheOptimizerTakesWhatIsSlower) {
  Measured run;
  const ParallelConfig config{.dp = 4, .zero_stage = 1, .offload = Offload::kOptimizer};
  const RankParameters held{.dense = 16e6};
  EXPECT_NEAR(host_optimizer_time({run.scenario, config}, held).value(), 4e6 * 28 / 20.3e9, 1e-9);
  run.scenario.cluster.host->link_bandwidth = BytesPerSecond(1e9);
  EXPECT_NEAR(host_optimizer_time({run.scenario, config}, held).value(), 4e6 * 4 / 1e9, 1e-9);
}

/// Llama-3 8B, which one GPU's pipeline stage holds whole.
struct Dense {
  Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
  ParallelConfig config{.tp = 4, .dp = 2, .sequence_parallel = true, .zero_stage = 1};
};

/// Returns how long a layer's activations of one microbatch of Dense take over the host link; tp is
/// 4.
Seconds transfer_of_layer(const Scenario& scenario) {
  return layer_activations(scenario.job.model, 1, 4, Recompute::kNone, true,
                           {.stores_scores = false}) /
         scenario.cluster.host->link_bandwidth;
}

// 32 layers less one: each leaves before the next one's pass begins, and comes before its own.
TEST(Offload, OfActivationsOfAllLayersButTheLastIsWaitedFor) {
  Dense run;
  run.config.offload = Offload::kActivations;
  run.scenario.cluster.host->link_bandwidth = BytesPerSecond(2e9);
  const MicrobatchCosts costs = microbatch_costs(run.scenario, run.config);
  const double transfer = transfer_of_layer(run.scenario).value();
  const OffloadTime time = activation_offload_time({run.scenario, run.config, &costs});
  EXPECT_NEAR(time.forward.value(), 31 * transfer, 1e-9);
  EXPECT_NEAR(time.backward.value(), 31 * transfer, 1e-9);
  const double microbatches = 32.0;  // 64 sequences over two replicas
  EXPECT_NEAR(iteration_cost({run.scenario, run.config}).offload.value(),
              microbatches * (time.forward + time.backward).value(), 1e-9);
}

// 12 of 32 layers: the first transfer begins after one pass and the last is over before the last
// pass, so that 12 transfers, each longer than three passes, run beside 30.
TEST(Offload, OfSomeLayersActivationsRunsBehindTheOthers) {
  Dense run;
  run.config.offload = Offload::kActivations;
  run.config.offload_num_layers = 12;
  run.scenario.cluster.host->link_bandwidth = BytesPerSecond(1e9);
  const MicrobatchCosts costs = microbatch_costs(run.scenario, run.config);
  const double transfer = transfer_of_layer(run.scenario).value();
  const LayerCosts& layer = costs.layers[0];
  ASSERT_GT(transfer, 3 * layer.backward.total().value());
  const OffloadTime time = activation_offload_time({run.scenario, run.config, &costs});
  EXPECT_NEAR(time.forward.value(), 12 * transfer - 30 * layer.forward.total().value(), 1e-9);
  EXPECT_NEAR(time.backward.value(), 12 * transfer - 30 * layer.backward.total().value(), 1e-9);
}

TEST(Offload, OfActivationsIsSimulatedAsItIsCosted) {
  Dense run;
  run.config.offload = Offload::kActivations;
  run.config.offload_num_layers = 16;
  const MicrobatchCosts costs = microbatch_costs(run.scenario, run.config);
  run.scenario.cluster.host->link_bandwidth = BytesPerSecond(2e9);
  const StepTimes slow = step_times({run.scenario, run.config, &costs});
  run.scenario.cluster.host->link_bandwidth = BytesPerSecond(1e13);
  const StepTimes fast = step_times({run.scenario, run.config, &costs});
  run.scenario.cluster.host->link_bandwidth = BytesPerSecond(2e9);
  const OffloadTime time = activation_offload_time({run.scenario, run.config, &costs});
  EXPECT_NEAR((slow.stages[0].forward - fast.stages[0].forward).value(), time.forward.value(),
              1e-9);
}

TEST(Offload, OfActivationsCostsNothingBehindAFastLink) {
  Dense run;
  run.config.offload = Offload::kActivations;
  run.config.offload_num_layers = 30;
  run.scenario.cluster.host->link_bandwidth = BytesPerSecond(1e13);
  ParallelConfig without = run.config;
  without.offload = Offload::kNone;
  without.offload_num_layers = 0;
  EXPECT_EQ(iteration_cost({run.scenario, run.config}).total(),
            iteration_cost({run.scenario, without}).total());
}

// Of the activations of 32 layers, those of one layer are on the GPU at a time. The host holds
// those of all but the last layer.
TEST(Offload, OfActivationsLeavesOneLayerOnTheGpu) {
  Dense run;
  const Bytes all = rank_memory({run.scenario, run.config}, 0).activations;
  run.config.offload = Offload::kActivations;
  EXPECT_NEAR(rank_memory({run.scenario, run.config}, 0).activations / all, 1.0 / 32.0, 1e-12);
  EXPECT_NEAR(host_memory({run.scenario, run.config}) / all, 31.0 / 32.0, 1e-12);
}

// The activations of the 20 other layers stay.
TEST(Offload, OfSomeLayersActivationsLeavesTheOthersOnTheGpu) {
  Dense run;
  const Bytes all = rank_memory({run.scenario, run.config}, 0).activations;
  run.config.offload = Offload::kActivations;
  run.config.offload_num_layers = 12;
  EXPECT_NEAR(rank_memory({run.scenario, run.config}, 0).activations / all, 20.0 / 32.0, 1e-12);
  EXPECT_NEAR(host_memory({run.scenario, run.config}) / all, 12.0 / 32.0, 1e-12);
}

// 8 + 4 + 4 bytes of each parameter of a rank's shard, beside the activations.
TEST(Offload, NeedsRoomForStatesGradientsAndParametersOnTheHost) {
  Dense run;
  run.config.offload = Offload::kActivations;
  const Bytes activations = host_memory({run.scenario, run.config});
  run.config.offload = Offload::kBoth;
  const double shard = most_parameters(run.scenario.job.model, run.config).total() / 2;
  EXPECT_NEAR((host_memory({run.scenario, run.config}) - activations) / Bytes(16 * shard), 1.0,
              1e-12);
}

// By hand: of five layers that are offloaded but for the last, and one that predicts more, two
// stay; of the first three offloaded, three; and never more than there is.
TEST(Offload, LeavesOnTheGpuTheLayersThatStay) {
  TransformerConfig model;
  model.num_layers = 5;
  model.mtp_num_layers = 1;
  const auto left = [&](const ParallelConfig& config, double kept) {
    return activations_on_gpu(model, config, Bytes(kept), Bytes(10.0)).value();
  };
  EXPECT_EQ(left({}, 100.0), 100.0);
  EXPECT_EQ(left({.offload = Offload::kOptimizer}, 100.0), 100.0);
  EXPECT_EQ(left({.offload = Offload::kActivations}, 100.0), 20.0);
  EXPECT_EQ(left({.offload = Offload::kBoth, .offload_num_layers = 3}, 100.0), 30.0);
  EXPECT_EQ(left({.offload = Offload::kActivations}, 15.0), 15.0);
}

TEST(Offload, LeavesOnTheGpuWhatTheHostDoesNotHoldOfTheOptimizer) {
  StackSpec stack;
  stack.optimizer_bytes = 12.0;
  stack.offloaded_optimizer_bytes = 8.0;
  EXPECT_EQ(optimizer_bytes_on_gpu(stack, {}), 12.0);
  EXPECT_EQ(optimizer_bytes_on_gpu(stack, {.offload = Offload::kActivations}), 12.0);
  EXPECT_EQ(optimizer_bytes_on_gpu(stack, {.offload = Offload::kOptimizer}), 4.0);
  EXPECT_EQ(optimizer_bytes_on_gpu(stack, {.offload = Offload::kBoth}), 4.0);
}

}  // namespace
}  // namespace ptdp
