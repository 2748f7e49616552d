// Tests of the times that a step is simulated with.
#include "cost_model/iteration/step_builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/iteration/iteration.h"
#include "cost_model/iteration/simulated_step.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "cost_model/schedule/validator/validator.h"
#include "cost_model/simulation/engine/step_simulator.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

Seconds time_of(const TransferTime& transfer) {
  return transfer.latency + transfer.transfer;
}

/// Returns a 1F1B step whose reductions hide nothing, added up from its times. It adds the
/// simulated compute, two messages per microbatch and per stage of fill and drain, and one bucket
/// of gradients. The sum is no less than the step: when ranks wait anyway, messages are free.
Seconds time_of_step(const Scenario& scenario, const ParallelConfig& config) {
  const StepTimes times = step_times({scenario, config});
  const auto microbatches =
      static_cast<int>(num_microbatches(scenario.job.global_batch_size, config));
  const Schedule schedule = one_f_one_b({.pp = config.pp, .num_microbatches = microbatches});
  const bool crosses_nodes = times.node_of.front() != times.node_of.back();
  const Seconds message = time_of(crosses_nodes ? times.across_nodes : times.within_node);
  const auto longest = [](const std::vector<TransferTime>& transfers) {
    Seconds most;
    for (const TransferTime& transfer : transfers) {
      most = std::max(most, time_of(transfer));
    }
    return most;
  };
  return simulate(schedule, times.stages).makespan() +
         2.0 * (microbatches + config.pp - 1) * message + longest(times.reductions) +
         longest(times.gathers) + time_of(times.tied) + times.norm +
         *std::max_element(times.optimizer.begin(), times.optimizer.end());
}

// Messages are 2 % of these steps at most, and the ranks' largest buckets not all of one rank.
void expect_step(const Scenario& scenario, const ParallelConfig& config) {
  const double share = time_of_step(scenario, config) / iteration_cost({scenario, config}).total();
  EXPECT_GT(share, 1.0 - 1e-9) << to_string(config);
  EXPECT_LT(share, 1.02) << to_string(config);
}

TEST(StepTimes, AddUpToTheStepOfOneFOneB) {
  for (const auto& [model, config] :
       {std::pair("1T", ParallelConfig{.tp = 8, .pp = 64, .dp = 6, .recompute = Recompute::kFull}),
        std::pair("18B", ParallelConfig{.tp = 8, .pp = 4, .dp = 2, .micro_batch_size = 2}),
        std::pair("76B", ParallelConfig{.tp = 4, .pp = 2, .dp = 16}),
        std::pair("7.5B", ParallelConfig{.pp = 6, .layers_per_stage = {5, 6, 6, 6, 7, 6}})}) {
    const Scenario scenario = selene_2021(model, 384);
    expect_step(scenario, config);
  }
}

// Sequences that GPUs share, in each way of sharing.
TEST(StepTimes, OfSharedSequencesAddUpToTheStep) {
  for (const auto& [kind, name] : kContextParallelNames) {
    Scenario scenario = selene_2021("18B", 384);
    scenario.stack.context_parallel_kind = kind;
    for (const auto& config :
         {ParallelConfig{.tp = 8, .pp = 4, .dp = 2, .cp = 2},
          ParallelConfig{.tp = 2, .pp = 8, .cp = 4, .recompute = Recompute::kFull},
          ParallelConfig{.tp = 4, .pp = 2, .dp = 4, .cp = 2, .recompute = Recompute::kSelective}}) {
      expect_step(scenario, config);
      EXPECT_GT(iteration_cost({scenario, config}).context_parallel, Seconds(0.0)) << name;
    }
  }
}

// The end of the model accumulates the gradients of three uses of its tables in place of one.
TEST(StepTimes, AccumulateWhatModulesOfMoreTokensUse) {
  Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "torchtitan-2024", 256);
  scenario.stack.fused_gradient_accumulation = false;
  scenario.job.model.mtp_num_layers = 1;
  const ParallelConfig config{
      .tp = 2, .pp = 4, .dp = 2, .sequence_parallel = true, .layers_per_stage = {9, 9, 9, 5}};
  expect_step(scenario, config);
}

// By hand: stages of equal layers, m·(F + B) + (p-1)(F + B), accumulation and ends left out.
TEST(StepTimes, AreExactWhereStagesAreEqual) {
  Scenario scenario = selene_2021("18B", 64);
  scenario.stack.fused_gradient_accumulation = true;
  const ParallelConfig config{.tp = 8, .pp = 4, .dp = 2};
  MicrobatchCosts costs = microbatch_costs(scenario, config);
  costs.embedding = costs.logits = {};
  costs.embedding_forward = costs.logits_forward = costs.logits_weight_gradient = Seconds(0.0);
  costs.embedding_accumulation = Seconds(0.0);
  const StepTimes times = step_times({scenario, config, &costs});
  const Seconds makespan =
      simulate(one_f_one_b({.pp = 4, .num_microbatches = 32}), times.stages).makespan();
  const CostBreakdown cost = iteration_cost({scenario, config, &costs});
  const Seconds expected = cost.matmul + cost.attention + cost.memory_bound + cost.launch +
                           cost.tensor_parallel + cost.bubble;
  EXPECT_NEAR(makespan / expected, 1.0, 1e-12);
}

// Eight ranks of tp on nodes of eight: each rank of the pipeline is on a node of its own; two by
// two where tp is four.
TEST(StepTimes, KnowTheNodeOfEveryRank) {
  const Scenario scenario = selene_2021("18B", 64);
  const auto nodes = [&](int tp, int dp) {
    const ParallelConfig config{.tp = tp, .pp = 4, .dp = dp};
    return step_times({scenario, config}).node_of;
  };
  EXPECT_EQ(nodes(8, 1), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(nodes(4, 1), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(nodes(4, 4), (std::vector<int>{0, 2, 4, 6}));
}

TEST(StepTimes, SendFasterWithinANode) {
  const Scenario scenario = selene_2021("18B", 64);
  const ParallelConfig config{.tp = 4, .pp = 4, .dp = 4};
  const StepTimes times = step_times({scenario, config});
  EXPECT_LT(time_of(times.within_node), time_of(times.across_nodes));
  EXPECT_EQ(times.within_node.latency, scenario.stack.pipeline_latency);
}

TEST(StepTimes, BlockOnlyWhereTheRuntimeDoes) {
  const StackSpec blocking = find_stack("megatron-lm-2021");
  const StackSpec overlapping = find_stack("megatron-lm-2023");
  ASSERT_EQ(overlapping.pipeline_overlap, PipelineOverlap::kInterleaved);
  const auto mode = [](const StackSpec& stack, ScheduleKind schedule, int vpp) {
    return message_mode(stack, {.pp = 4, .vpp = vpp, .schedule = schedule});
  };
  EXPECT_EQ(mode(blocking, ScheduleKind::kOneFOneB, 1), MessageMode::kBlocking);
  EXPECT_EQ(mode(overlapping, ScheduleKind::kOneFOneB, 1), MessageMode::kBlocking);
  EXPECT_EQ(mode(blocking, ScheduleKind::kInterleaved, 2), MessageMode::kBlocking);
  EXPECT_EQ(mode(overlapping, ScheduleKind::kInterleaved, 2), MessageMode::kOverlapped);
  EXPECT_EQ(mode(blocking, ScheduleKind::kZbH1, 1), MessageMode::kOverlapped);
}

// 18B: 40 layers of 6144 over 8 x 4 GPUs are 0.57 G parameters each, 2.3 GB of fp32 gradients.
TEST(StepBuckets, AreTheStacks) {
  Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2023", 64);
  scenario.stack.data_parallel_overlap = DataParallelOverlap::kAlways;
  scenario.stack.gradient_bucket_size = Bytes(1e9);
  ParallelConfig config{.tp = 8, .pp = 4, .dp = 2};
  EXPECT_EQ(step_buckets({scenario, config}).reductions, (std::vector<int>{3, 3, 3, 3}));
  EXPECT_EQ(step_buckets({scenario, config}).gathers, (std::vector<int>{0, 0, 0, 0}));
  config.zero_stage = 1;
  EXPECT_EQ(step_buckets({scenario, config}).gathers, (std::vector<int>{3, 3, 3, 3}));
  config.dp = 1;
  EXPECT_EQ(step_buckets({scenario, config}).reductions, (std::vector<int>{0, 0, 0, 0}));
  scenario.stack.data_parallel_overlap = DataParallelOverlap::kNever;
  config.dp = 2;
  EXPECT_EQ(step_buckets({scenario, config}).reductions, (std::vector<int>{1, 1, 1, 1}));
}

// A chunk without layers between the ends of the model has a bucket, as schedules have one for each
// stage or for none, with nothing in it.
TEST(StepBuckets, OfAnEmptyStageTakeNoTime) {
  Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2023", 64);
  scenario.job.model.num_layers = 3;
  scenario.stack.data_parallel_overlap = DataParallelOverlap::kAlways;
  scenario.stack.gradient_bucket_size = Bytes(1e12);
  const ParallelConfig config{.tp = 8,
                              .pp = 2,
                              .dp = 2,
                              .vpp = 2,
                              .schedule = ScheduleKind::kInterleaved,
                              .zero_stage = 1,
                              .layers_per_stage = {1, 1, 0, 1}};
  EXPECT_EQ(step_buckets({scenario, config}).reductions, (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(step_buckets({scenario, config}).gathers, (std::vector<int>{1, 1, 1, 1}));
  const Schedule schedule =
      complete(find_schedule("interleaved")->generate({.pp = 2, .vpp = 2, .num_microbatches = 2}),
               step_actions({scenario, config}));
  EXPECT_FALSE(find_fault(schedule).has_value());
  const StepTimes times = step_times({scenario, config});
  EXPECT_EQ(time_of(times.reductions[2]), Seconds(0.0));
  EXPECT_EQ(time_of(times.gathers[2]), Seconds(0.0));
  EXPECT_GT(time_of(times.reductions[1]), Seconds(0.0));
}

// DeepSeek-V3's layers, 14 of them, three dense.
TEST(StepTimes, AddUpToTheStepOfLayersOfTwoKinds) {
  Scenario scenario = shipped_scenario("deepseek-v3", "dgx-h100", "megatron-core-2025", 256);
  scenario.job.model.num_layers = 14;
  scenario.job.model.mtp_num_layers = 0;
  scenario.stack.data_parallel_overlap = DataParallelOverlap::kNever;
  for (const std::vector<int>& layers : {std::vector{5, 4, 3, 2}, std::vector{4, 4, 3, 3}}) {
    expect_step(scenario, {.pp = 4, .dp = 8, .ep = 8, .zero_stage = 1, .layers_per_stage = layers});
  }
}

}  // namespace
}  // namespace ptdp
