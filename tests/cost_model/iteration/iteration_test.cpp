// Tests of the terms of an iteration's time, and of its traffic.
#include "cost_model/iteration/iteration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/iteration/reduction_and_optimizer.h"
#include "cost_model/iteration/step_builder.h"
#include "cost_model/memory/memory.h"
#include "cost_model/network/collectives.h"
#include "tests/cost_model/plain_scenario.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// Returns the published configuration of the 1T model.
ParallelConfig trillion() {
  return {.tp = 8, .pp = 64, .dp = 6, .recompute = Recompute::kFull};
}

TEST(IterationCost, IsTheSumOfItsTerms) {
  const CostBreakdown cost = iteration_cost({selene_2021("1T"), trillion()});
  double sum = 0.0;
  for (const CostTerm& term : kCostTerms) {
    EXPECT_GE((cost.*term.time).value(), 0.0) << term.name;
    sum += (cost.*term.time).value();
  }
  EXPECT_DOUBLE_EQ(cost.total().value(), sum);
}

TEST(IterationCost, OfOneGpuHasNoCommunicationAndNoBubble) {
  const CostBreakdown cost = iteration_cost({selene_2021("gpt2-124m", 8), {.micro_batch_size = 4}});
  for (const Seconds time : {cost.bubble, cost.pipeline_messages, cost.tensor_parallel,
                             cost.data_parallel, cost.embedding_all_reduce, cost.recompute}) {
    EXPECT_EQ(time, Seconds(0.0));
  }
}

// With equal stages the bubble of 1F1B is (p - 1)(F + B); v chunks divide both passes by v.
TEST(IterationCost, HasABubbleThatInterleavingDivides) {
  Scenario scenario = selene_2021("145B");
  scenario.stack.microbatch_overhead = Seconds(0.0);  // paid once for each chunk
  const ParallelConfig plain{
      .tp = 8, .pp = 8, .dp = 24, .micro_batch_size = 2, .recompute = Recompute::kFull};
  ParallelConfig interleaved = plain;
  interleaved.vpp = 5;
  interleaved.schedule = ScheduleKind::kInterleaved;
  MicrobatchCosts costs = microbatch_costs(scenario, plain);
  costs.embedding = costs.logits = {};
  costs.embedding_forward = costs.logits_forward = costs.logits_weight_gradient = Seconds(0.0);
  costs.embedding_accumulation = Seconds(0.0);
  EXPECT_NEAR(iteration_cost({scenario, plain, &costs}).bubble /
                  iteration_cost({scenario, interleaved, &costs}).bubble,
              5.0, 1e-9);
}

/// Returns the makespan of 1F1B with stage-dependent durations and free messages [s]. It walks the
/// orders of all ranks: an action starts when its rank is free and its input is there.
double simulate_one_f_one_b(const std::vector<double>& forward, const std::vector<double>& backward,
                            int microbatches) {
  const int pp = static_cast<int>(forward.size());
  struct Rank {
    std::vector<std::pair<bool, int>> order;  // is forward, microbatch
    std::size_t next = 0;
    double free_at = 0.0;
  };
  std::vector<Rank> ranks(pp);
  for (int r = 0; r < pp; ++r) {
    const int warm_up = std::min(pp - 1 - r, microbatches);
    int done = 0;
    for (int m = 0; m < microbatches; ++m) {
      ranks[r].order.emplace_back(true, m);
      if (m >= warm_up) {
        ranks[r].order.emplace_back(false, done++);
      }
    }
    while (done < microbatches) {
      ranks[r].order.emplace_back(false, done++);
    }
  }
  const double never = -1.0;
  std::vector<std::vector<double>> forward_end(pp, std::vector<double>(microbatches, never));
  std::vector<std::vector<double>> backward_end = forward_end;
  bool is_moving = true;
  while (is_moving) {
    is_moving = false;
    for (int r = 0; r < pp; ++r) {
      Rank& rank = ranks[r];
      while (rank.next < rank.order.size()) {
        const auto [is_forward, m] = rank.order[rank.next];
        const double input = is_forward
                                 ? (r == 0 ? 0.0 : forward_end[r - 1][m])
                                 : (r == pp - 1 ? forward_end[r][m] : backward_end[r + 1][m]);
        if (input == never) {
          break;
        }
        rank.free_at = std::max(rank.free_at, input) + (is_forward ? forward[r] : backward[r]);
        (is_forward ? forward_end : backward_end)[r][m] = rank.free_at;
        ++rank.next;
        is_moving = true;
      }
    }
  }
  double makespan = 0.0;
  for (const Rank& rank : ranks) {
    makespan = std::max(makespan, rank.free_at);
  }
  return makespan;
}

// The pipeline's terms against the walk. One layer per stage takes 1 s forward and 3 s backward;
// the last stage is heavier by the share that logits have in the ten models of SC21 table 1 (1 % to
// 30 % of a stage).
TEST(IterationCost, PipelineTermIsThatOfAWalkThroughItsOrders) {
  for (const int pp : {2, 4, 8, 16, 35}) {
    for (const int rounds : {1, 2, 4, 8}) {
      for (const double logits : {0.02, 0.1, 0.3}) {
        const int microbatches = rounds * pp;
        Scenario scenario = selene_2021("1.7B", microbatches);
        scenario.job.model.num_layers = pp;
        scenario.stack.microbatch_overhead = Seconds(0.0);
        MicrobatchCosts costs{.layers = {LayerCosts{.forward = {.matmul = Seconds(1.0)},
                                                    .backward = {.matmul = Seconds(3.0)}}},
                              .logits = {.matmul = Seconds(4.0 * logits)}};
        costs.logits_forward = Seconds(logits * 4.0 / 3.0);
        const CostBreakdown cost = iteration_cost({scenario, {.pp = pp}, &costs});
        const Seconds passes = cost.matmul + cost.embedding_and_logits + cost.bubble;

        std::vector<double> forward(pp, 1.0);
        std::vector<double> backward(pp, 3.0);
        forward.back() += logits * 4.0 / 3.0;
        backward.back() += logits * 8.0 / 3.0;
        const double simulated = simulate_one_f_one_b(forward, backward, microbatches);
        EXPECT_NEAR(passes.value() / simulated, 1.0, 1e-9)
            << "p " << pp << " m " << microbatches << " logits " << logits;
      }
    }
  }
}

// By hand: one microbatch goes through all six stages of 1 s and back through them, 3 s each: 24 s,
// of which a rank works 12. Two go side by side: 12 s for each, and 1 s and 3 s of fill and drain
// for the first chunk and the last, which is 28.
TEST(IterationCost, WaitsInEachRoundOfLoopedBfsForMicrobatchesThatAreFewerThanStages) {
  for (const auto& [microbatches, bubble] : {std::pair(1, 12.0), std::pair(2, 4.0)}) {
    Scenario scenario = selene_2021("1.7B", microbatches);
    scenario.job.model.num_layers = 6;
    const MicrobatchCosts costs{.layers = {LayerCosts{.forward = {.matmul = Seconds(1.0)},
                                                      .backward = {.matmul = Seconds(3.0)}}}};
    scenario.stack.microbatch_overhead = Seconds(0.0);
    const CostBreakdown cost = iteration_cost(
        {scenario, {.pp = 2, .vpp = 3, .schedule = ScheduleKind::kLoopedBfs}, &costs});
    EXPECT_DOUBLE_EQ(cost.bubble.value(), bubble) << microbatches;
  }
}

TEST(IterationCost, HidesTheReductionBehindTheBackwardPassOnlyWhereTheStackDoes) {
  Scenario scenario = selene_2021("3.6B");
  scenario.stack.gradient_bucket_bytes = 0.0;  // nothing is copied, whenever it is reduced
  const ParallelConfig config{
      .tp = 2, .dp = 32, .micro_batch_size = 16, .recompute = Recompute::kFull};
  scenario.stack.data_parallel_overlap = DataParallelOverlap::kNever;
  const Seconds exposed = iteration_cost({scenario, config}).data_parallel;
  scenario.stack.data_parallel_overlap = DataParallelOverlap::kSingleStage;
  const Seconds hidden = iteration_cost({scenario, config}).data_parallel;
  EXPECT_LT(hidden, 0.3 * exposed);
  EXPECT_GT(hidden, Seconds(0.0));  // the last bucket has nothing to hide behind
}

// PipeDream applies the gradient of every microbatch (arXiv:1806.03377, section 3): eight of them
// take eight times what one takes, reductions and optimizer included. PipeDream-2BW
// (arXiv:2006.09503, section 3) applies the sum of all, as 1F1B does.
TEST(IterationCost, OfPipeDreamHasAnUpdateForEveryMicrobatch) {
  const auto cost = [](ScheduleKind schedule, int microbatches) {
    return iteration_cost(
        {selene_2021("18B", 2 * microbatches), {.tp = 8, .pp = 4, .dp = 2, .schedule = schedule}});
  };
  const CostBreakdown one = cost(ScheduleKind::kPipeDream, 1);
  const CostBreakdown each = cost(ScheduleKind::kPipeDream, 8);
  const CostBreakdown together = cost(ScheduleKind::kPipeDream2Bw, 8);
  for (const CostTerm& term : kCostTerms) {
    EXPECT_DOUBLE_EQ((each.*term.time).value(), 8.0 * (one.*term.time).value()) << term.name;
  }
  for (const auto update : {&CostBreakdown::data_parallel, &CostBreakdown::embedding_all_reduce,
                            &CostBreakdown::optimizer}) {
    EXPECT_GT(one.*update, Seconds(0.0));
    EXPECT_EQ(together.*update, one.*update);
  }
  EXPECT_NEAR(together.optimizer / cost(ScheduleKind::kOneFOneB, 8).optimizer, 1.0, 1e-9);
}

// Many small buckets pay for their latencies, a single one has nothing to hide behind.
TEST(IterationCost, ExposesLeastOfTheReductionWithBucketsOfMiddlingSize) {
  Scenario scenario = selene_2021("3.6B");
  const ParallelConfig config{.tp = 2, .dp = 32, .micro_batch_size = 4};
  const auto exposed = [&](double megabytes) {
    scenario.stack.gradient_bucket_size = Bytes(megabytes * kMega);
    return iteration_cost({scenario, config}).data_parallel;
  };
  EXPECT_GT(exposed(1.0), 2.0 * exposed(100.0));
  EXPECT_GT(exposed(10000.0), 1.5 * exposed(100.0));
}

// By hand, two ranks with two microbatches, chunks of 1 s forward and 2 s backward, rank 0 the last
// one to be done. With two chunks it runs B of microbatch 1 in its last chunk from 9 to 11 s and in
// its first from 13 to 15. Gradients are reduced from the first of n buckets of either pass on,
// 2/n s after its begin, and wait for nothing but the reductions before them: of all-reduces that
// take A together, far more than passes, 15 - 9 - 2/n s are hidden. With one chunk B runs from 7 to
// 9 s and hides 2 - 2/n. All-reduces that take less than a pass leave their last bucket.
TEST(IterationCost, ReducesAChunkBehindThePassesOfTheChunksBeforeIt) {
  Scenario scenario = selene_2021("3.6B", 16);
  StackSpec& stack = scenario.stack;
  stack.gradient_bucket_bytes = stack.gradient_staging_traffic = stack.overlap_slowdown = 0.0;
  stack.gradient_bucket_size = Bytes(1.0 * kMega);
  stack.microbatch_overhead = stack.pipeline_latency = Seconds(0.0);
  scenario.job.model.untied_embeddings = true;
  ClusterSpec& cluster = scenario.cluster;
  cluster.all_reduce_curves.clear();
  cluster.nccl.reset();
  cluster.nccl_within_node.reset();
  cluster.nic.hop_latency = cluster.nvlink.hop_latency = cluster.collective_launch = Seconds(0.0);
  cluster.nvlink.bandwidth = BytesPerSecond(1e30);
  const MicrobatchCosts costs{.layers = {LayerCosts{.forward = {.matmul = Seconds(1.0)},
                                                    .backward = {.matmul = Seconds(2.0)},
                                                    .weight_gradient = {.matmul = Seconds(1.0)}}}};
  // A pipeline lies within a node, its messages on other links than its reductions.
  ParallelConfig config{.tp = 4, .pp = 2, .dp = 8, .rank_order = RankOrder::kTpCpEpPpDp};
  const auto reduction = [&](DataParallelOverlap overlap) {
    stack.data_parallel_overlap = overlap;
    scenario.job.model.num_layers = config.pp * config.vpp;
    return iteration_cost({scenario, config, &costs}).data_parallel.value();
  };
  const double usual = cluster.nic.bandwidth.value();
  for (const auto& [vpp, hidden] : {std::pair(1, 2.0), std::pair(2, 6.0)}) {
    config.vpp = vpp;
    config.schedule = vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB;
    cluster.nic.bandwidth = BytesPerSecond(usual / 1e4);
    const double all = reduction(DataParallelOverlap::kNever);
    ASSERT_GT(all, 100.0);
    stack.data_parallel_overlap = DataParallelOverlap::kAlways;
    const std::vector<int> counts = step_buckets({scenario, config}).reductions;
    const double buckets = counts[static_cast<std::size_t>(vpp - 1) * config.pp];  // reduced first
    const double of_rank = vpp > 1 ? counts.front() + buckets : buckets;
    ASSERT_GT(buckets, 50.0);
    EXPECT_NEAR(all - reduction(DataParallelOverlap::kAlways), hidden - 2.0 / buckets, 1e-6) << vpp;
    cluster.nic.bandwidth = BytesPerSecond(usual);
    const double little = reduction(DataParallelOverlap::kNever);
    ASSERT_LT(little, 2.0);
    EXPECT_NEAR(reduction(DataParallelOverlap::kAlways) / (little / of_rank), 1.0, 0.02) << vpp;
  }
}

// By hand: with fp16, 8 bytes per parameter more pass through memory at 0.7 · 2039 GB/s; the flag
// of an overflow goes round 8 tensor-parallel ranks and 64 stages.
TEST(IterationCost, LooksForOverflowsWithFp16Only) {
  Scenario scenario = selene_2021("1T");
  const auto optimizer = [&] { return iteration_cost({scenario, trillion()}).optimizer; };
  const Seconds with_fp16 = optimizer();
  scenario.stack.precision = Precision::kBf16;
  const Seconds with_bf16 = optimizer();
  const RankGrid grid(trillion());
  Seconds flags;
  for (const Dimension dimension : {Dimension::kTensor, Dimension::kPipeline}) {
    flags += all_reduce_time(Bytes(4.0), place_group(grid, dimension, scenario.cluster),
                             scenario.cluster);
  }
  const double parameters = rank_parameters(scenario.job.model, trillion(), 0).total();
  EXPECT_NEAR((with_fp16 - with_bf16 - flags).value(), 8.0 * parameters / (0.7 * 2.039e12), 1e-9);
}

// By hand: tp 2 and pp 4 fill a node of 8: with stages before replicas messages stay on NVLink,
// whose rate divides their time; the reduction goes over all NICs in rings of one GPU per node.
TEST(IterationCost, SendsWithinNodesWhatTheOrderOfRanksPutsThere) {
  const Scenario scenario = selene_2021("1.7B", 512);
  ParallelConfig config{.tp = 2, .pp = 4, .dp = 8};
  const CostBreakdown stages_last = iteration_cost({scenario, config});
  config.rank_order = RankOrder::kTpCpEpPpDp;
  const CostBreakdown replicas_last = iteration_cost({scenario, config});
  const Placements groups = place_groups(config, scenario.cluster);
  EXPECT_TRUE(groups.pipeline.is_within_node());
  EXPECT_EQ(groups.data.nodes, 8);
  EXPECT_EQ(groups.data.ranks_per_node, 1);
  EXPECT_LT(replicas_last.pipeline_messages, stages_last.pipeline_messages);
  EXPECT_GT(replicas_last.data_parallel, stages_last.data_parallel);
  EXPECT_EQ(replicas_last.matmul, stages_last.matmul);
  EXPECT_EQ(replicas_last.tensor_parallel, stages_last.tensor_parallel);
}

// By hand: 2-byte gradients into buckets and back are 8 bytes per parameter, at 70 % of 2039 GB/s.
// Copies belong to the all-reduce of their bucket: of n buckets the last one's are exposed, the
// others' hide behind the backward pass, which they slow down.
TEST(IterationCost, CopiesGradientsIntoTheBucketsThatTheStackKeeps) {
  Scenario scenario = selene_2021("3.6B");
  const ParallelConfig config{
      .tp = 2, .dp = 32, .micro_batch_size = 16, .recompute = Recompute::kFull};
  const double buckets = step_buckets({scenario, config}).reductions.front();
  const Seconds with_buckets = iteration_cost({scenario, config}).data_parallel;
  scenario.stack.gradient_bucket_bytes = 0.0;
  const Seconds without = iteration_cost({scenario, config}).data_parallel;
  const double parameters = rank_parameters(scenario.job.model, config, 0).total();
  const double copies = 8.0 * parameters / (0.7 * 2.039e12);
  ASSERT_GT(buckets, 1.0);
  EXPECT_NEAR((with_buckets - without).value(),
              copies * (1.0 + (buckets - 1.0) * scenario.stack.overlap_slowdown) / buckets, 1e-9);
}

TEST(IterationCost, ReducesLessThanItGathersAndScattersWithZeroOne) {
  Scenario scenario = shipped_scenario("22B", "selene-a100", "megatron-lm-2022", 64);
  ParallelConfig config{.tp = 8, .dp = 8};
  const Seconds all_reduce = iteration_cost({scenario, config}).data_parallel;
  config.zero_stage = 1;
  const Seconds sharded = iteration_cost({scenario, config}).data_parallel;
  // fp32 gradients: an all-reduce moves 8 bytes per parameter, a reduce-scatter of them and an
  // all-gather of 2-byte weights move 6; the staging traffic is the same.
  EXPECT_LT(sharded, all_reduce);
  EXPECT_GT(sharded, 0.7 * all_reduce);
}

TEST(IterationCost, GrowsWithEveryTimeOfTheHardware) {
  const Scenario fast = selene_2021("1T");
  const Seconds before = iteration_cost({fast, trillion()}).total();
  const auto slowed = [&](auto change) {
    Scenario slow = fast;
    change(slow);
    return iteration_cost({slow, trillion()}).total();
  };
  EXPECT_GT(slowed([](Scenario& s) { s.cluster.gpu.matmul_efficiency *= 0.9; }), before);
  EXPECT_GT(slowed([](Scenario& s) { s.cluster.gpu.memory_efficiency *= 0.9; }), before);
  EXPECT_GT(slowed([](Scenario& s) { s.cluster.nic.efficiency *= 0.9; }), before);
  EXPECT_GT(slowed([](Scenario& s) {
              s.cluster.all_reduce_curves.clear();
              s.cluster.nvlink.efficiency *= 0.5;
            }),
            before);
  EXPECT_GT(slowed([](Scenario& s) { s.stack.pipeline_latency = microseconds(300.0); }), before);
}

// By hand for the 1T run: 512 microbatches of 2048·25600 elements, 2 bytes, an eighth of each
// message, both ways; 8·6 links in the cut.
TEST(IterationTraffic, CountsTheMessagesOfThePipeline) {
  const Traffic traffic = iteration_traffic({selene_2021("1T"), trillion()}, Seconds(100.0));
  EXPECT_DOUBLE_EQ(traffic.pipeline.value(), 2.0 * 512 * 2048 * 25600 * 2 / 8);
  EXPECT_DOUBLE_EQ(traffic.pipeline_bisection.value(), traffic.pipeline.value() * 48 / 100);
}

// By hand: of two stages each sends one way only; with two chunks one sends forth twice and back
// once, the other the reverse.
TEST(IterationTraffic, OfTwoStagesIsThatOfTheirEnds) {
  const Scenario scenario = selene_2021("1T");
  ParallelConfig config = {.tp = 8, .pp = 2, .dp = 6};
  const double message = 512.0 * 2048 * 25600 * 2 / 8;
  EXPECT_DOUBLE_EQ(iteration_traffic({scenario, config}, Seconds(1.0)).pipeline.value(), message);
  config.vpp = 2;
  config.schedule = ScheduleKind::kInterleaved;
  EXPECT_DOUBLE_EQ(iteration_traffic({scenario, config}, Seconds(1.0)).pipeline.value(),
                   3.0 * message);
}

// By hand: two chunks go through the cut twice forth and once back.
TEST(IterationTraffic, CountsTheWayBackOfAnInterleavedPipeline) {
  ParallelConfig interleaved = trillion();
  interleaved.vpp = 2;
  interleaved.schedule = ScheduleKind::kInterleaved;
  const Traffic traffic = iteration_traffic({selene_2021("1T"), interleaved}, Seconds(100.0));
  const Traffic plain = iteration_traffic({selene_2021("1T"), trillion()}, Seconds(100.0));
  EXPECT_DOUBLE_EQ(traffic.pipeline.value(), 2.0 * plain.pipeline.value());
  EXPECT_DOUBLE_EQ(traffic.pipeline_bisection.value(), 3.0 * plain.pipeline_bisection.value());
}

// By hand: a ring over 6 replicas sends 2·5/6 of 2 bytes per parameter; each replica holds the
// model, norms and row-parallel biases on each of its 8 tensor-parallel ranks, and the embedding on
// the last stage once more.
TEST(IterationTraffic, SumsTheReductionOverTheStages) {
  const Scenario scenario = selene_2021("1T");
  const Traffic traffic = iteration_traffic({scenario, trillion()}, Seconds(100.0));
  const double l = 128;
  const double h = 25600;
  const double replicated = 7.0 * (l * 6.0 * h + 2.0 * h + 2048.0 * h);  // once more on 7 ranks
  const double held = 1008038758400.0 + 51200.0 * h + replicated;
  EXPECT_NEAR(traffic.data_parallel_total.value(), 2.0 * 5 / 6 * 2.0 * held * 6 / 100.0,
              1e-6 * held);
}

// Scattered and gathered, 2 bytes each; summed whole in 4 bytes, and gathered.
TEST(IterationTraffic, CountsWhatZero1AllReduces) {
  Scenario scenario = selene_2021("1T");
  ParallelConfig config = trillion();
  config.zero_stage = 1;
  const Bytes scattered = iteration_traffic({scenario, config}, Seconds(1.0)).data_parallel;
  scenario.stack = at_precision(find_stack("megatron-deepspeed-2021"), Precision::kBf16);
  const Bytes summed = iteration_traffic({scenario, config}, Seconds(1.0)).data_parallel;
  EXPECT_DOUBLE_EQ(summed / scattered, (4.0 * 2 + 2.0) / (2.0 + 2.0));
}

// By hand: 2 layers, 6 all-reduces of 2bsh bytes each of which a rank sends 2·7/8, 512 times.
TEST(IterationTraffic, CountsTheTensorParallelCollectives) {
  const Traffic traffic = iteration_traffic({selene_2021("1T"), trillion()}, Seconds(100.0));
  const double all_reduce = 2.0 * 7 / 8 * 2 * 2048 * 25600;
  EXPECT_DOUBLE_EQ(traffic.tensor_parallel.value(), 512.0 * 2 * 6 * all_reduce);
}

// Elements of fp64 are four times as large as those of fp16: activations, messages, and parameters
// that are gathered; gradients are as the stack reduces them.
TEST(IterationTraffic, CountsElementsOfThePrecision) {
  Scenario scenario = selene_2021("1T");
  ParallelConfig config = trillion();
  config.zero_stage = 1;
  const Traffic half = iteration_traffic({scenario, config}, Seconds(1.0));
  scenario.stack.precision = Precision::kFp64;
  const Traffic whole = iteration_traffic({scenario, config}, Seconds(1.0));
  EXPECT_DOUBLE_EQ(whole.tensor_parallel / half.tensor_parallel, 4.0);
  EXPECT_DOUBLE_EQ(whole.pipeline / half.pipeline, 4.0);
  const double held = most_parameters(scenario.job.model, config).total();
  EXPECT_NEAR((whole.data_parallel - half.data_parallel).value(), 5.0 / 6 * 6 * held, 1e-9 * held);
}

// GPUs that share sequences hold the same parameters, as replicas do, next to one another.
TEST(IterationCost, ReducesGradientsOverSharersAndReplicas) {
  const Scenario scenario = selene_2021("18B", 64);
  for (const int zero_stage : {0, 1}) {
    const ParallelConfig shared{.tp = 8, .pp = 4, .dp = 2, .cp = 4, .zero_stage = zero_stage};
    const ParallelConfig replicas{.tp = 8, .pp = 4, .dp = 8, .zero_stage = zero_stage};
    const CostBreakdown cost = iteration_cost({scenario, shared});
    const CostBreakdown expected = iteration_cost({scenario, replicas});
    EXPECT_NEAR(cost.data_parallel / expected.data_parallel, 1.0, 1e-12);  // a rest of the step
    EXPECT_EQ(cost.optimizer, expected.optimizer);
    EXPECT_EQ(iteration_traffic({scenario, shared}, Seconds(1.0)).data_parallel,
              iteration_traffic({scenario, replicas}, Seconds(1.0)).data_parallel);
    EXPECT_GT(cost.context_parallel, Seconds(0.0));
    EXPECT_EQ(expected.context_parallel, Seconds(0.0));
  }
}

// By hand: 10 layers on a stage, 32 microbatches.
TEST(IterationCost, SumsWhatLayersWaitForPartsOfSequences) {
  const Scenario scenario = selene_2021("18B", 64);
  const ParallelConfig config{.tp = 8, .pp = 4, .dp = 2, .cp = 4};
  const LayerCosts layer = layer_costs(scenario, config);
  EXPECT_NEAR(iteration_cost({scenario, config}).context_parallel /
                  (32.0 * 10.0 * (layer.forward + layer.backward).context_parallel),
              1.0, 1e-12);
}

// By hand: t = 8 of 48 heads of 128, 512 of 2048 tokens: K and V of 2·512·6·128·2 bytes go round to
// three others, twice as many bytes with their gradients; 10 layers on a stage, 32 microbatches.
TEST(IterationTraffic, OfSharedSequencesIsTheirKeysAndValues) {
  const Scenario scenario = selene_2021("18B", 64);
  ParallelConfig config{.tp = 8, .pp = 4, .dp = 2, .cp = 4};
  const auto sent = [&] {
    return iteration_traffic({scenario, config}, Seconds(1.0)).context_parallel.value();
  };
  const double round = 3.0 * 2 * 512 * 6 * 128 * 2;
  EXPECT_DOUBLE_EQ(sent(), 32.0 * 10 * 3 * round);
  config.recompute = Recompute::kFull;
  EXPECT_DOUBLE_EQ(sent(), 32.0 * 10 * 4 * round);
  config.cp = 1;
  EXPECT_EQ(sent(), 0.0);
}

// Experts that tp does not split are whole on each of its ranks: ZeRO-1 reduces and gathers them
// over tp·dp ranks, the rest over dp.
TEST(IterationCost, ReducesUnsplitExpertsOverTensorParallelRanksToo) {
  const Scenario scenario = shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 8);
  const auto sent = [&](int tp, int dp) {
    const ParallelConfig config{.tp = tp, .dp = dp, .sequence_parallel = true, .zero_stage = 1};
    return iteration_traffic({scenario, config}, Seconds(1.0)).data_parallel.value();
  };
  // 32 layers of 8 experts, three matrices of 4096 by 14336 each; 4 bytes reduced, 2 gathered.
  const double experts = 6.0 * 32.0 * 8.0 * 3.0 * 4096.0 * 14336.0;
  EXPECT_DOUBLE_EQ(sent(4, 1), experts * 3.0 / 4.0);
  const double rest = sent(1, 8) - experts * 7.0 / 8.0;
  EXPECT_NEAR(sent(4, 2) / (experts * 7.0 / 8.0 + rest / 4.0 * (1.0 / 2.0) / (7.0 / 8.0)), 1.0,
              1e-3);
}

// Three layers with experts on the second of two stages, 64/8 microbatches, there and back in both
// passes, once more in what is repeated.
TEST(IterationTraffic, CountsWhatIsSentToExperts) {
  Scenario scenario = plain_scenario(small_latent_model());
  scenario.job.model.num_layers = 5;
  scenario.job.model.first_dense_layers = 2;
  ParallelConfig config{.pp = 2, .dp = 8, .ep = 8, .layers_per_stage = {2, 3}};
  const double of_layer = 2.0 * 7 / 8 * 256 * 2 * 64;
  const auto sent = [&] {
    return iteration_traffic({scenario, config}, Seconds(1.0)).expert_parallel.value();
  };
  EXPECT_DOUBLE_EQ(sent(), 8 * 3 * 2 * 2 * of_layer);
  config.recompute = Recompute::kFull;
  EXPECT_DOUBLE_EQ(sent(), 8 * 3 * 3 * 2 * of_layer);
  config.ep = 1;
  EXPECT_EQ(sent(), 0.0);
}

}  // namespace
}  // namespace ptdp
