// Tests of the volume, time and memory of fully sharded training.
#include "cost_model/iteration/sharding.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/iteration/iteration.h"
#include "cost_model/iteration/step_builder.h"
#include "cost_model/memory/memory.h"
#include "cost_model/network/collectives.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

constexpr std::int64_t kBatch = 128;

/// Returns a GPT of 3.6 billion parameters on 64 GPUs, with two microbatches each.
Scenario fsdp() {
  return shipped_scenario("3.6B", "mosaicml-a100-80gb", "composer-fsdp-2023", kBatch);
}
ParallelConfig sharded(int zero_stage) {
  return {.dp = 64, .recompute = Recompute::kFull, .zero_stage = zero_stage};
}

Scenario with_links(Scenario scenario, double factor) {
  for (LinkSpec* link : {&scenario.cluster.nvlink, &scenario.cluster.nic}) {
    link->bandwidth = link->bandwidth * factor;
  }
  return scenario;
}

ShardingTime time_of(const Scenario& scenario, const ParallelConfig& config) {
  return sharding_time({scenario, config});
}

// ZeRO (arXiv:1910.02054) section 7.2.2: 3Ψ elements in a microbatch against 2Ψ of data
// parallelism, here of 2 bytes each, of which a rank sends 63/64.
TEST(Sharding, SendsHalfAsMuchAgainAsDataParallelismInEachMicrobatch) {
  const Scenario scenario = fsdp();
  const double parameters = rank_parameters(scenario.job.model, sharded(3), 0).total();
  EXPECT_DOUBLE_EQ(sharding_volume({scenario, sharded(3)}).value(),
                   2.0 * 3.0 * 2.0 * parameters * 63.0 / 64.0);
  // Stage 2: the gradients of two microbatches, and the weights once.
  EXPECT_DOUBLE_EQ(sharding_volume({scenario, sharded(2)}).value(),
                   (2.0 * 2.0 + 2.0) * parameters * 63.0 / 64.0);
  EXPECT_EQ(iteration_traffic({scenario, sharded(3)}, Seconds(1.0)).data_parallel,
            sharding_volume({scenario, sharded(3)}));
}

// By links that are so slow that compute hides nothing worth mentioning, the time is the volume's:
// a gather forward, one of the layers and a reduce-scatter of all backward, over the 8 NICs of a
// node. The ends stay from the forward pass.
TEST(Sharding, IsBoundByItsVolumeWhereLinksAreSlow) {
  const Scenario slow = with_links(fsdp(), 1e-6);
  const ShardingTime time = time_of(slow, sharded(3));
  const GroupPlacement group = place_groups(sharded(3), slow.cluster).data;
  const double parameters = rank_parameters(slow.job.model, sharded(3), 0).total();
  const double of_pass =
      2.0 * parameters * 63.0 / 64.0 / bus_bandwidth(group, slow.cluster).value();
  const double h = slow.job.model.hidden_size;
  const double layers = slow.job.model.num_layers * (12.0 * h * h + 13.0 * h);
  EXPECT_NEAR(time.forward.value() / of_pass, 1.0, 0.01);
  EXPECT_NEAR(time.backward.value() / of_pass, 1.0 + layers / parameters, 0.01);
}

TEST(Sharding, HidesAllButTheEndsBehindComputeWhereLinksAreFast) {
  Scenario fast = with_links(fsdp(), 1e4);
  fast.stack.overlap_slowdown = 0.0;
  fast.stack.gradient_staging_traffic = 0.0;
  const MicrobatchCosts costs = microbatch_costs(fast, sharded(3));
  const ShardingTime time = sharding_time({fast, sharded(3), &costs});
  EXPECT_LT(time.forward, 0.02 * costs.layers[0].forward.total() * fast.job.model.num_layers);
  EXPECT_LT(time.backward, 0.02 * costs.layers[0].backward.total() * fast.job.model.num_layers);
  fast.stack.data_parallel_overlap = DataParallelOverlap::kNever;
  EXPECT_GT(time_of(fast, sharded(3)).forward, 2.0 * time.forward);
}

// All 2-byte weights are read and written forward, and those of the layers once more backward.
TEST(Sharding, CopiesWhatItGathersWhereItIsNotInPlace) {
  Scenario scenario = fsdp();
  const ShardingTime plain = time_of(scenario, sharded(3));
  const Seconds two = time_of(scenario, sharded(2)).forward;
  scenario.stack.copies_gathered_weights = true;
  const ShardingTime copied = time_of(scenario, sharded(3));
  const GpuSpec& gpu = scenario.cluster.gpu;
  const double bandwidth = gpu.memory_bandwidth.value() * gpu.memory_efficiency;
  const double parameters = rank_parameters(scenario.job.model, sharded(3), 0).total();
  const double ends = end_parameters(scenario.job.model, sharded(3), 0);
  EXPECT_NEAR((copied.forward - plain.forward).value() * bandwidth / (4.0 * parameters), 1.0, 1e-9);
  EXPECT_NEAR((copied.backward - plain.backward).value() * bandwidth / (4.0 * (parameters - ends)),
              1.0, 1e-9);
  EXPECT_EQ(time_of(scenario, sharded(2)).forward, two);
}

TEST(Sharding, GathersNothingInAPassOfStageTwo) {
  EXPECT_EQ(time_of(fsdp(), sharded(2)).forward, Seconds(0.0));
  EXPECT_LT(time_of(fsdp(), sharded(2)).backward, time_of(fsdp(), sharded(3)).backward);
}

// By hand: four matrices, 64 pieces each, 7 µs for a piece; gathered twice and scattered once.
TEST(Sharding, PutsMatricesTogetherFromAllRanksWhereTheyAreApart) {
  Scenario fast = with_links(fsdp(), 1e9);
  fast.cluster.collective_launch = fast.cluster.nic.hop_latency = fast.cluster.nvlink.hop_latency =
      Seconds(0.0);
  const auto both = [&] {
    const ShardingTime time = time_of(fast, sharded(3));
    return time.forward + time.backward;
  };
  const Seconds together = both();
  fast.stack.shards_matrices_apart = true;
  EXPECT_NEAR((both() - together).value(), fast.job.model.num_layers * 3.0 * 4.0 * 64.0 * 7e-6,
              1e-4);
}

// By hand: gathered twice; an all-reduce is of buckets, which nothing puts together.
TEST(Sharding, PutsNothingTogetherForAnAllReduce) {
  Scenario fast = with_links(fsdp(), 1e9);
  fast.stack.all_reduces_shards = true;
  fast.cluster.collective_launch = fast.cluster.nic.hop_latency = fast.cluster.nvlink.hop_latency =
      Seconds(0.0);
  const auto both = [&](int zero_stage) {
    const ShardingTime time = time_of(fast, sharded(zero_stage));
    return time.forward + time.backward;
  };
  const Seconds gathered = both(3);
  const Seconds reduced = both(2);
  fast.stack.shards_matrices_apart = true;
  EXPECT_NEAR((both(3) - gathered).value(), fast.job.model.num_layers * 2.0 * 4.0 * 64.0 * 7e-6,
              1e-4);
  EXPECT_NEAR((both(2) - reduced).value(), 0.0, 1e-4);
}

// Links so slow that nothing hides: an all-reduce sends twice what a reduce-scatter does; so fast
// that everything else would: what is waited for is left.
TEST(Sharding, WaitsForAllReducesWhereGradientsAreReducedWhole) {
  Scenario scenario = with_links(fsdp(), 1e-6);
  const double parameters = rank_parameters(scenario.job.model, sharded(2), 0).total();
  const Seconds scattered = time_of(scenario, sharded(2)).backward;
  scenario.stack.all_reduces_shards = true;
  EXPECT_NEAR(time_of(scenario, sharded(2)).backward / scattered, 2.0, 0.01);
  EXPECT_DOUBLE_EQ(sharding_volume({scenario, sharded(2)}).value(),
                   (2.0 * 2.0 * 2.0 + 2.0) * parameters * 63.0 / 64.0);

  Scenario fast = fsdp();
  fast.stack.overlap_slowdown = 0.0;
  fast.stack.gradient_staging_traffic = 0.0;
  fast.stack.all_reduces_shards = true;
  const Placements groups = place_groups(sharded(2), fast.cluster);
  const double h = fast.job.model.hidden_size;
  const double layer = 12.0 * h * h + 13.0 * h;
  const double layers = fast.job.model.num_layers;
  const auto all_reduce = [&](double count) {
    return all_reduce_time(Bytes(2.0 * count), groups.data, fast.cluster);
  };
  EXPECT_NEAR(time_of(fast, sharded(2)).backward /
                  (layers * all_reduce(layer) + all_reduce(parameters - layers * layer)),
              1.0, 1e-9);
}

// By hand: QKV, projection, h→4h and 4h→h are 3, 1, 4 and 4 of a layer's 12 h². Between their
// recomputation and their backward pass 18, 16, 8 and 0 h² are used.
TEST(Sharding, GathersOnceMoreWhatIsUsedAgainTooLate) {
  Scenario slow = with_links(fsdp(), 1e-6);
  const TransformerConfig& model = slow.job.model;
  const double h = model.hidden_size;
  const Bytes sent = sharding_volume({slow, sharded(3)});
  const Seconds backward = time_of(slow, sharded(3)).backward;
  const double gathered = 2.0 * model.num_layers * (12.0 * h * h + 13.0 * h) * 63.0 / 64.0;
  const double bandwidth =
      bus_bandwidth(place_groups(sharded(3), slow.cluster).data, slow.cluster).value();
  const auto expect = [&](double distance, double twelfths) {
    slow.stack.max_reuse_distance = distance * h * h;
    EXPECT_NEAR((sharding_volume({slow, sharded(3)}) - sent).value(),
                2.0 * gathered * twelfths / 12.0, 1.0)
        << distance;
    EXPECT_NEAR((time_of(slow, sharded(3)).backward - backward).value() * bandwidth / gathered,
                twelfths / 12.0, 0.01)
        << distance;
  };
  expect(1.0, 8.0);
  expect(8.0, 8.0);
  expect(9.0, 4.0);
  expect(17.0, 3.0);
  expect(19.0, 0.0);
  slow.stack.max_reuse_distance = 1.0;
  ParallelConfig config = sharded(3);
  config.recompute = Recompute::kNone;
  EXPECT_EQ(sharding_volume({slow, config}), sent);
}

TEST(Sharding, LeavesEachRankItsShareOfTheState) {
  const Scenario scenario = fsdp();
  const double parameters = rank_parameters(scenario.job.model, sharded(3), 0).total();
  const MemoryBreakdown whole = rank_memory({scenario, sharded(0)}, 0);
  const MemoryBreakdown third = rank_memory({scenario, sharded(3)}, 0);
  EXPECT_DOUBLE_EQ(64.0 * third.weights.value(), 2.0 * parameters);
  EXPECT_DOUBLE_EQ(64.0 * third.gradients.value(), 2.0 * parameters);
  EXPECT_DOUBLE_EQ(64.0 * third.optimizer.value(), 12.0 * parameters);
  EXPECT_EQ(third.activations, whole.activations);
  // Two layers of 12h² + 13h parameters and the ends, weights and gradients of 2 bytes each.
  const double h = scenario.job.model.hidden_size;
  const double layers = scenario.job.model.num_layers * (12.0 * h * h + 13.0 * h);
  EXPECT_NEAR(third.buffers.value(), 4.0 * (2.0 * (12.0 * h * h + 13.0 * h) + parameters - layers),
              1.0);
  EXPECT_LT(third.total(), rank_memory({scenario, sharded(2)}, 0).total());
}

/// Returns four replicas of shards; each replica is 16 GPUs on two nodes.
ParallelConfig hybrid() {
  ParallelConfig config = sharded(3);
  config.dp_replicate = 4;
  return config;
}
ParallelConfig keeping_weights() {
  ParallelConfig config = sharded(3);
  config.reshard_after_forward = false;
  return config;
}

// By hand, of two microbatches, 2 bytes each: two gathers and a reduce-scatter over 16, of which a
// rank sends 15/16, and an all-reduce of the sixteenth over 4, twice 3/4 of it.
TEST(Sharding, SendsShardsBetweenTheirReplicas) {
  const Scenario scenario = fsdp();
  const double parameters = rank_parameters(scenario.job.model, hybrid(), 0).total();
  EXPECT_DOUBLE_EQ(sharding_volume({scenario, hybrid()}).value(),
                   2.0 * 2.0 * parameters * (3.0 * 15.0 / 16.0 + 2.0 * 3.0 / 4.0 / 16.0));
  EXPECT_EQ(iteration_traffic({scenario, hybrid()}, Seconds(1.0)).data_parallel,
            sharding_volume({scenario, hybrid()}));
  const MemoryBreakdown memory = rank_memory({scenario, hybrid()}, 0);
  EXPECT_DOUBLE_EQ(16.0 * memory.weights.value(), 2.0 * parameters);
  EXPECT_DOUBLE_EQ(16.0 * memory.gradients.value(), 2.0 * parameters);
  EXPECT_DOUBLE_EQ(16.0 * memory.optimizer.value(), 12.0 * parameters);
  EXPECT_EQ(memory.buffers, rank_memory({scenario, sharded(3)}, 0).buffers);
}

// ZeRO-1 over replicas of the shards, with a pipeline: once per iteration.
TEST(Sharding, SendsShardsOfTheOptimizerBetweenTheirReplicasOnce) {
  const Scenario scenario = fsdp();
  const ParallelConfig config = {.pp = 2, .dp = 32, .zero_stage = 1, .dp_replicate = 2};
  double parameters = 0.0;
  for (const int stage : {0, 1}) {
    parameters = std::max(parameters, rank_parameters(scenario.job.model, config, stage).total());
  }
  EXPECT_DOUBLE_EQ(iteration_traffic({scenario, config}, Seconds(1.0)).data_parallel.value(),
                   2.0 * parameters * (2.0 * 15.0 / 16.0 + 2.0 * 1.0 / 2.0 / 16.0));
}

// A replica of the shards on each node: weights travel within it, and between nodes nothing but
// the all-reduce of an eighth of the gradients, over eight nodes by each GPU's own NIC.
TEST(Sharding, LeavesOnlyAnAllReduceOfShardsBetweenNodesWhereEachHasAReplica) {
  ParallelConfig config = sharded(3);
  config.dp_replicate = 8;
  Scenario slow = fsdp();
  const Seconds forward = time_of(slow, config).forward;
  slow.cluster.nic.bandwidth = slow.cluster.nic.bandwidth * 1e-6;
  const ShardingTime time = time_of(slow, config);
  EXPECT_EQ(time.forward, forward);
  const double parameters = rank_parameters(slow.job.model, config, 0).total();
  const GroupPlacement one_of_each_node{.size = 8, .ranks_per_node = 1, .nodes = 8};
  EXPECT_NEAR(time.backward.value() / (2.0 * 7.0 / 8.0 * 2.0 * parameters / 8.0 /
                                       bus_bandwidth(one_of_each_node, slow.cluster).value()),
              1.0, 0.01);
}

// A gather and a reduce-scatter in each of two microbatches; all weights beside the gradients of
// two layers and of the ends. Forward as with it, backward as in stage 2.
TEST(Sharding, GathersOnceWhereWeightsAreKeptAfterForwardPasses) {
  const Scenario scenario = fsdp();
  const double parameters = rank_parameters(scenario.job.model, sharded(3), 0).total();
  EXPECT_DOUBLE_EQ(sharding_volume({scenario, keeping_weights()}).value(),
                   2.0 * 2.0 * 2.0 * parameters * 63.0 / 64.0);
  const Bytes dropped = rank_memory({scenario, sharded(3)}, 0).buffers;
  EXPECT_NEAR(rank_memory({scenario, keeping_weights()}, 0).buffers.value(),
              dropped.value() / 2.0 + 2.0 * parameters, 1.0);
  EXPECT_EQ(time_of(scenario, keeping_weights()).forward, time_of(scenario, sharded(3)).forward);
  EXPECT_EQ(time_of(scenario, keeping_weights()).backward, time_of(scenario, sharded(2)).backward);
}

TEST(Sharding, IsStageOneWithAPipeline) {
  Scenario scenario = fsdp();
  ParallelConfig pipeline = {.pp = 2, .dp = 32, .recompute = Recompute::kFull, .zero_stage = 3};
  const CostBreakdown third = iteration_cost({scenario, pipeline});
  const Bytes memory = peak_memory({scenario, pipeline});
  pipeline.zero_stage = 1;
  EXPECT_EQ(iteration_cost({scenario, pipeline}).total(), third.total());
  EXPECT_EQ(peak_memory({scenario, pipeline}), memory);
}

// On one stage a step is its microbatches one after the other and the optimizer; without overlap
// nothing hides the gathering of stage 2 either.
TEST(Sharding, TakesAsLongInASimulatedStep) {
  Scenario scenario = fsdp();
  scenario.stack.parameter_gather_overlap = false;
  for (const ParallelConfig& config : {sharded(2), sharded(3), hybrid(), keeping_weights()}) {
    const StepTimes times = step_times({scenario, config});
    const StepBuckets buckets = step_buckets({scenario, config});
    EXPECT_EQ(buckets.reductions.front(), 0);
    const TransferTime& gather = times.gathers.front();
    const Seconds step = 2.0 * (times.stages.front().forward + times.stages.front().backward) +
                         buckets.gathers.front() * (gather.latency + gather.transfer) + times.norm +
                         times.optimizer.front();
    EXPECT_NEAR(step / iteration_cost({scenario, config}).total(), 1.0, 1e-3) << to_string(config);
  }
}

}  // namespace
}  // namespace ptdp
