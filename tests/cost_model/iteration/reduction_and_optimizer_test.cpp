// Tests of the terms at a step's end: exchanges, reductions and the optimizer.
#include "cost_model/iteration/reduction_and_optimizer.h"

#include <gtest/gtest.h>

#include "cost_model/pipeline_rank/rank_parameters.h"
#include "tests/cost_model/plain_scenario.h"

namespace ptdp {
namespace {

constexpr double kNvlink = 100e9;
constexpr double kNic = 10e9;
constexpr double kParameters = 1e6;

/// Returns a scenario on nodes of four GPUs, whose links and rings have no latencies. Gradients are
/// reduced in four bytes.
Scenario on_plain_links(const TransformerConfig& model = small_expert_model()) {
  Scenario scenario = plain_scenario(model);
  ClusterSpec cluster;
  cluster.gpu = scenario.cluster.gpu;
  cluster.gpus_per_node = 4;
  cluster.nvlink.bandwidth = BytesPerSecond(kNvlink);
  cluster.nic.bandwidth = BytesPerSecond(kNic);
  scenario.cluster = cluster;
  scenario.stack = {};
  return scenario;
}

/// Returns the bytes that pass a member of a ring of n in each half of an all-reduce.
double half_of_ring(double n, double bytes) {
  return (n - 1.0) / n * bytes;
}

void expect_seconds(Seconds time, double expected) {
  EXPECT_NEAR(time.value(), expected, 1e-9 * expected);
}

// A tied embedding is that of a model without experts and with one table: by hand, 1024 tokens of
// 64 features, four bytes each, of which each of two ranks has half.
TEST(TiedReductionTime, IsAnAllReduceOfBothEndsOfThePipeline) {
  TransformerConfig model = small_expert_model();
  model.untied_embeddings = false;
  const Scenario scenario = on_plain_links(model);
  const auto time = [&](const ParallelConfig& config, const Scenario& of) {
    return tied_reduction_time({of, config});
  };
  const double table = 1024.0 * 64 * 4;
  expect_seconds(time({.tp = 2, .pp = 2}, scenario), 2.0 * half_of_ring(2, table / 2) / kNvlink);
  expect_seconds(time({.tp = 4, .pp = 2}, scenario), 2.0 * half_of_ring(2, table / 4) / kNic);
  // The first and the last of four stages are two members.
  expect_seconds(time({.pp = 4}, scenario), 2.0 * half_of_ring(2, table) / kNvlink);
  EXPECT_EQ(time({.tp = 2}, scenario), Seconds(0.0));
  EXPECT_EQ(time({.pp = 2, .vpp = 2, .schedule = ScheduleKind::kZbV}, scenario), Seconds(0.0));
  EXPECT_EQ(time({.pp = 2}, on_plain_links()), Seconds(0.0));
}

// By hand: 512 tokens of 64 features in two bytes; scattered over two ranks half of it goes over
// the link, and the other half is gathered.
TEST(ExchangeTime, IsALatencyAndMessagesOfAMicrobatch) {
  Scenario scenario = on_plain_links();
  scenario.stack.pipeline_latency = Seconds(1e-3);
  ParallelConfig config{.tp = 2, .pp = 2, .micro_batch_size = 2};
  const auto time = [&](double messages) {
    const PlannedJob job(scenario, config);
    return exchange_time(job, job.groups(), messages);
  };
  const double message = 512.0 * 64 * 2;
  expect_seconds(time(3.0), 1e-3 + 3.0 * message / kNvlink);
  scenario.stack.scatter_gather = true;
  expect_seconds(time(3.0), 1e-3 + 3.0 * (message / 2 + message / 2) / kNvlink);
  config.sequence_parallel = true;
  expect_seconds(time(2.0), 1e-3 + 2.0 * message / 2 / kNvlink);
  config = {.tp = 4, .pp = 2, .micro_batch_size = 2};
  scenario.stack.scatter_gather = false;
  expect_seconds(time(1.0), 1e-3 + message / kNic);
  config = {.pp = 2, .cp = 2, .micro_batch_size = 2};
  expect_seconds(time(1.0), 1e-3 + message / 2 / kNvlink);
  // With a measured curve, the smallest message takes the latency that the stack gives.
  scenario.cluster.message_curve = MeasuredCurve({{.size = Bytes(1024.0), .time = Seconds(0.5)},
                                                  {.size = Bytes(2048.0), .time = Seconds(0.75)}},
                                                 "test");
  const Placements groups = place_groups(config, scenario.cluster);
  EXPECT_EQ(exchange_latency(scenario, groups), Seconds(0.5));
  scenario.cluster.time_factors.communication = 2.0;
  EXPECT_EQ(exchange_latency(scenario, groups), Seconds(1.0));
}

// Buckets of 25 MB of four-byte gradients.
TEST(GradientBuckets, AreAsManyAsGradientsFill) {
  StackSpec stack;
  stack.data_parallel_overlap = DataParallelOverlap::kSingleStage;
  EXPECT_EQ(num_gradient_buckets(stack, 1, 12.5e6), 2.0);
  EXPECT_EQ(num_gradient_buckets(stack, 1, 12.5e6 + 1.0), 3.0);
  EXPECT_EQ(num_gradient_buckets(stack, 1, 1.0), 1.0);
  EXPECT_EQ(num_gradient_buckets(stack, 1, 0.0), 1.0);
  EXPECT_EQ(num_gradient_buckets(stack, 2, 12.5e6), 1.0);
  stack.gradient_bucket_size = Bytes(1e6);
  EXPECT_EQ(num_gradient_buckets(stack, 1, 12.5e6), 50.0);
}

// By hand, four replicas on a node: all-reduces, with ZeRO reduce-scatters and all-gathers of two
// bytes; of experts on two ranks over those two that have the same.
TEST(ReductionTime, IsThatOfTheGroupsThatHoldTheSame) {
  Scenario scenario = on_plain_links();
  const auto reduction = [&](const ParallelConfig& config, const RankParameters& parameters,
                             double pieces = 1.0) {
    return reduction_time({scenario, config}, parameters, pieces);
  };
  const auto gathering = [&](const ParallelConfig& config, const RankParameters& parameters,
                             double pieces = 1.0) {
    return gathering_time({scenario, config}, parameters, pieces);
  };
  const RankParameters dense{.dense = kParameters};
  const RankParameters both{.dense = kParameters, .experts = 3.0 * kParameters};
  const double gradients = 4.0 * kParameters;
  const double weights = 2.0 * kParameters;
  const double all_reduce = 2.0 * half_of_ring(4, gradients) / kNvlink;
  expect_seconds(reduction({.dp = 4}, dense), all_reduce);
  expect_seconds(reduction({.dp = 4}, dense, 5.0), all_reduce / 5.0);
  EXPECT_EQ(gathering({.dp = 4}, dense), Seconds(0.0));
  expect_seconds(reduction({.dp = 4, .zero_stage = 1}, dense), all_reduce / 2.0);
  expect_seconds(gathering({.dp = 4, .zero_stage = 1}, dense), half_of_ring(4, weights) / kNvlink);
  expect_seconds(gathering({.dp = 4, .zero_stage = 1}, dense, 5.0),
                 half_of_ring(4, weights) / kNvlink / 5.0);

  const ParallelConfig with_experts{.dp = 4, .ep = 2, .zero_stage = 1};
  expect_seconds(reduction(with_experts, both),
                 all_reduce / 2.0 + half_of_ring(2, 3.0 * gradients) / kNvlink);
  expect_seconds(gathering(with_experts, both),
                 (half_of_ring(4, weights) + half_of_ring(2, 3.0 * weights)) / kNvlink);

  // Two replicas of two shards: half of the gradients is then summed over both.
  expect_seconds(
      reduction({.dp = 4, .zero_stage = 1, .dp_replicate = 2}, dense),
      half_of_ring(2, gradients) / kNvlink + 2.0 * half_of_ring(2, gradients / 2) / kNvlink);

  // Whole where a stack reduces whole what it shards: gradients, or the optimizer alone.
  scenario.stack.all_reduces_shards = true;
  expect_seconds(reduction({.dp = 4, .zero_stage = 2}, dense), all_reduce);
  expect_seconds(reduction({.dp = 4, .zero_stage = 1}, dense), all_reduce / 2.0);
  scenario.stack.all_reduces_shards = false;
  scenario.stack.all_reduces_gradients = true;
  expect_seconds(reduction({.dp = 4, .zero_stage = 2}, dense), all_reduce / 2.0);
  expect_seconds(reduction({.dp = 4, .zero_stage = 1}, dense), all_reduce);
}

// By hand: eight replicas on two nodes. One layer has four matrices beside the embedding, five with
// a gate; four layers have more than there are replicas. Each broadcast passes all eight.
TEST(GatheringTime, WaitsForBroadcastsOfMatricesWhereTheStackSendsThem) {
  TransformerConfig model = small_dense_model();
  Scenario scenario = on_plain_links(model);
  constexpr double hop = 14e-6;
  scenario.cluster.nic.hop_latency = Seconds(hop);
  const auto added = [&](const ParallelConfig& config, double share = 1.0, double pieces = 1.0) {
    Scenario with = scenario;
    with.stack.broadcasts_weights = true;
    const RankParameters held{.dense =
                                  share * rank_parameters(scenario.job.model, config, 0).total()};
    return gathering_time({with, config}, held, pieces) -
           gathering_time({scenario, config}, held, pieces);
  };
  const ParallelConfig sharded{.dp = 8, .zero_stage = 1};
  scenario.job.model.num_layers = 1;
  scenario.job.model.gated_linear_unit = false;
  expect_seconds(added(sharded), 5.0 * 8.0 * hop);
  expect_seconds(added(sharded, 0.25), 5.0 * 8.0 * hop / 4.0);
  expect_seconds(added(sharded, 1.0, 10.0), 5.0 * 8.0 * hop / 10.0);
  scenario.job.model.gated_linear_unit = true;
  expect_seconds(added(sharded), 6.0 * 8.0 * hop);
  scenario.job.model.num_layers = 4;
  expect_seconds(added(sharded), 8.0 * 8.0 * hop);
  expect_seconds(added({.pp = 4, .dp = 8, .zero_stage = 1}), 6.0 * 8.0 * hop);
  EXPECT_EQ(added({.dp = 4, .zero_stage = 1}), Seconds(0.0));
  EXPECT_EQ(added({.dp = 8}), Seconds(0.0));
}

TEST(Placements, HaveReplicasWhereSomebodyElseHoldsTheSame) {
  const ClusterSpec cluster = on_plain_links().cluster;
  const RankParameters dense{.dense = 1.0};
  const RankParameters experts{.dense = 1.0, .experts = 1.0};
  EXPECT_FALSE(has_replicas(place_groups({.tp = 4}, cluster), dense));
  EXPECT_TRUE(has_replicas(place_groups({.dp = 2}, cluster), dense));
  EXPECT_TRUE(has_replicas(place_groups({.cp = 2}, cluster), dense));
  EXPECT_FALSE(has_replicas(place_groups({.dp = 2}, cluster), {}));
  // Experts alone, which the tensor-parallel ranks hold whole.
  EXPECT_TRUE(has_replicas(place_groups({.tp = 4}, cluster), experts));
  EXPECT_FALSE(has_replicas(place_groups({.tp = 4, .ep = 4}, cluster), experts));
  // One shard in each of two replicas.
  const Placements shards = place_groups({.dp = 2, .zero_stage = 1, .dp_replicate = 2}, cluster);
  EXPECT_EQ(shards.data.size, 1);
  EXPECT_EQ(shards.shard_replicas.size, 2);
  EXPECT_TRUE(has_replicas(shards, dense));
}

// Both directions of a bidirectional pipeline hold every layer: on one node, or on as many nodes
// again, through the tier that the pipeline spans.
TEST(Placements, CountBothCopiesOfABidirectionalPipeline) {
  ClusterSpec cluster = on_plain_links().cluster;
  const ParallelConfig on_a_node{.pp = 2, .dp = 2, .schedule = ScheduleKind::kDualPipe};
  const Placements within = place_groups(on_a_node, cluster);
  EXPECT_EQ(within.data.size, 4);
  EXPECT_EQ(within.data.ranks_per_node, 4);
  EXPECT_EQ(within.data.nodes, 1);
  EXPECT_EQ(within.expert_data.size, 4);
  cluster.network_tiers = {{.gpus = 64, .oversubscription = 3.0}};
  const ParallelConfig on_two{.tp = 4, .pp = 2, .schedule = ScheduleKind::kDualPipe};
  const Placements across = place_groups(on_two, cluster);
  EXPECT_EQ(across.data.size, 2);
  EXPECT_EQ(across.data.ranks_per_node, 1);
  EXPECT_EQ(across.data.nodes, 2);
  EXPECT_EQ(across.data.oversubscription, 3.0);
  EXPECT_EQ(place_groups({.tp = 4, .pp = 2}, cluster).data.size, 1);
}

// By hand at 1 TB/s; with fp16 a flag of four bytes goes round, which takes next to no time.
TEST(OptimizerTime, IsTheTrafficOfWhatARankUpdates) {
  Scenario scenario = on_plain_links();
  scenario.stack.optimizer_traffic = 30.0;
  scenario.stack.loss_scaling_traffic = 6.0;
  const auto time = [&](const ParallelConfig& config) {
    return optimizer_time({scenario, config}, {.dense = kParameters});
  };
  expect_seconds(time({.dp = 4}).step, 30.0 * kParameters / kPlainBandwidth);
  EXPECT_EQ(time({.dp = 4}).norm, Seconds(0.0));
  expect_seconds(time({.dp = 4, .zero_stage = 1}).step, 30.0 * kParameters / 4 / kPlainBandwidth);
  scenario.stack.precision = Precision::kFp16;
  expect_seconds(time({.tp = 2, .pp = 2}).step, 36.0 * kParameters / kPlainBandwidth);
  expect_seconds(time({.tp = 2, .pp = 2}).norm, 2.0 * (2.0 * half_of_ring(2, 4.0) / kNvlink));
  scenario.stack.loss_scaling_traffic = 0.0;
  EXPECT_EQ(time({.tp = 2, .pp = 2}).norm, Seconds(0.0));
  // What a host updates beside it moves nothing of the GPU's.
  scenario.stack.optimizer_traffic = 30.0;
  scenario.stack.host_optimizer_traffic = 20.0;
  scenario.cluster.host = HostSpec{.memory = gibibytes(1.0),
                                   .memory_bandwidth = BytesPerSecond(1e9),
                                   .link_bandwidth = BytesPerSecond(1e9)};
  expect_seconds(time({.offload = Offload::kOptimizer}).step, 20.0 * kParameters / 1e9);
  scenario.cluster.host->link_bandwidth = BytesPerSecond(1e8);
  expect_seconds(time({.offload = Offload::kOptimizer}).step, 4.0 * kParameters / 1e8);
}

}  // namespace
}  // namespace ptdp
