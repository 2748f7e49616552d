// Tests of lower bounds of a step against simulated steps.
#include "cost_model/iteration/least_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "cost_model/iteration/simulated_step.h"
#include "cost_model/iteration/step_builder.h"
#include "cost_model/schedule/generators/generators.h"
#include "tests/cost_model/simulation/plain_pipelines.h"

namespace ptdp {
namespace {

constexpr double kRounding = 1e-8;  // the bound may exceed the step by this share at most

/// Returns what a step that waits for all ranks takes after its passes, when nothing is reduced.
double end_of_step(const Scenario& scenario, const ParallelConfig& config,
                   const MicrobatchCosts& costs) {
  const StepTimes times = step_times({scenario, config, &costs});
  return (times.norm + *std::max_element(times.optimizer.begin(), times.optimizer.end())).value();
}

/// Returns the scenario with messages that take no time, and without a tied embedding to reduce.
Scenario free_messages(Scenario scenario) {
  scenario.job.model.untied_embeddings = true;
  scenario.stack.pipeline_latency = Seconds(0.0);
  for (LinkSpec* link : {&scenario.cluster.nvlink, &scenario.cluster.nic}) {
    link->hop_latency = Seconds(0.0);
    link->bandwidth = BytesPerSecond(1e30);
  }
  return scenario;
}

TEST(LeastStepTime, IsNeverMoreThanTheSimulatedOne) {
  int compared = 0;
  for (const NamedValue<ScheduleKind>& kind : kScheduleNames) {
    if (!traits_of(kind.value).is_synchronous) {
      continue;
    }
    for (const int pp : {2, 3, 4, 6, 8, 12}) {
      for (const int num_microbatches : {1, 2, 4, pp, 2 * pp, 2 * pp + 1, 4 * pp}) {
        const ParallelConfig config = pipeline(kind.value, pp);
        const ScheduleShape shape{
            .pp = pp, .vpp = config.vpp, .num_microbatches = num_microbatches};
        if (find_schedule(kind.name)->find_conflict(shape).has_value()) {
          continue;
        }
        for (const auto& [f, i, w, logits] :
             {std::tuple(1.0, 1.0, 1.0, 0.0), std::tuple(10.0, 12.0, 8.0, 4.0),
              std::tuple(3.0, 9.0, 2.0, 1.0), std::tuple(5.0, 2.0, 9.0, 0.0)}) {
          Scenario scenario = scenario_of(config, num_microbatches);
          for (const bool validates_later : {false, true}) {
            scenario.stack.optimizer_post_validation = validates_later;
            const MicrobatchCosts costs = costs_of(f, i, w, logits);
            StepSimulations simulations;
            const Seconds simulated = simulations.simulate({scenario, config, &costs});
            EXPECT_LE(least_step_time({scenario, config, &costs}), simulated)
                << kind.name << " p " << pp << " m " << num_microbatches << " F " << f;
            EXPECT_LE(LeastPasses({scenario, config, &costs}).time(num_microbatches),
                      simulated * (1.0 + kRounding))
                << kind.name << " p " << pp << " m " << num_microbatches << " F " << f;
            ++compared;
          }
        }
      }
    }
  }
  EXPECT_GT(compared, 2000);
}

// Reductions and gathers beside compute that take a hundredth of the passes, as long, or longer.
TEST(LeastStepTime, IsNeverMoreThanTheSimulatedOneWithBucketsBesideCompute) {
  int compared = 0;
  for (const NamedValue<ScheduleKind>& kind : kScheduleNames) {
    for (const int pp : {2, 4, 8}) {
      for (const int num_microbatches : {pp, 2 * pp, 4 * pp}) {
        ParallelConfig config = pipeline(kind.value, pp);
        config.dp = 2;
        config.zero_stage = 1;
        const ScheduleShape shape{
            .pp = pp, .vpp = config.vpp, .num_microbatches = num_microbatches};
        if (!traits_of(kind.value).is_synchronous ||
            find_schedule(kind.name)->find_conflict(shape).has_value()) {
          continue;
        }
        for (const double bandwidth : {1e9, 1e7, 1e6}) {
          for (const bool gathers_beside : {false, true}) {
            Scenario scenario = scenario_of(config, 2 * num_microbatches);
            scenario.stack.data_parallel_overlap = DataParallelOverlap::kAlways;
            scenario.stack.parameter_gather_overlap = gathers_beside;
            scenario.stack.gradient_bucket_bytes = 50e6;
            scenario.cluster.nic.bandwidth = BytesPerSecond(bandwidth);
            scenario.cluster.nvlink.bandwidth = BytesPerSecond(bandwidth);
            const MicrobatchCosts costs = costs_of(10.0, 12.0, 8.0);
            StepSimulations simulations;
            EXPECT_LE(least_step_time({scenario, config, &costs}),
                      simulations.simulate({scenario, config, &costs}))
                << kind.name << " p " << pp << " m " << num_microbatches << " at " << bandwidth
                << (gathers_beside ? " B/s, gathers beside" : " B/s, gathers before");
            ++compared;
          }
        }
      }
    }
  }
  EXPECT_GT(compared, 400);
}

// A dense stage without replicas, done last, has nothing to reduce: what its rank reduced of its
// experts ran beside it. Buckets of experts take less than a pass, as long, or longer.
TEST(LeastStepTime, IsNeverMoreThanTheSimulatedOneWhereExpertsAloneHaveReplicas) {
  const ParallelConfig config{.tp = 2, .pp = 2, .vpp = 2, .schedule = ScheduleKind::kInterleaved};
  Scenario scenario = shipped_scenario("deepseek-v3", "dgx-h100", "megatron-core-2025", 2);
  scenario.job.model.num_layers = 4;
  scenario.job.model.first_dense_layers = 1;
  scenario.job.model.mtp_num_layers = 0;
  scenario.stack.data_parallel_overlap = DataParallelOverlap::kAlways;
  scenario.stack.gradient_bucket_size = Bytes(1e15);
  scenario.stack.overlap_slowdown = 0.0;
  MicrobatchCosts costs = costs_of(1.0, 1.0, 1.0);
  costs.layers.fill(costs.layers.front());
  for (const double bandwidth : {5e9, 1e10, 2e10, 4e10, 1e11, 1e12}) {
    scenario.cluster.nvlink.bandwidth = BytesPerSecond(bandwidth);
    const StepTimes times = step_times({scenario, config, &costs});
    ASSERT_EQ(times.reductions.front().total(), Seconds(0.0));
    ASSERT_GT(times.reductions.back().total(), Seconds(0.0));
    StepSimulations simulations;
    EXPECT_LE(least_step_time({scenario, config, &costs}),
              simulations.simulate({scenario, config, &costs}))
        << times.reductions.back().total().value() << " s a bucket";
  }
}

// By hand: one rank of two holds 2 activations, and has 4 microbatches of 10 s + 20 s. It runs no
// more than two forward passes before its last bucket is gathered. It runs no more than two
// backward passes after its first gradients go. The other 60 s lie between.
TEST(LeastStepTime, PutsPassesBetweenGathersAndReductions) {
  ParallelConfig config = pipeline(ScheduleKind::kOneFOneB, 2);
  config.dp = 2;
  config.zero_stage = 1;
  Scenario scenario = scenario_of(config, 8);
  scenario.stack.data_parallel_overlap = DataParallelOverlap::kAlways;
  scenario.stack.parameter_gather_overlap = true;
  scenario.stack.gradient_bucket_bytes = 50e6;
  scenario.cluster.nic.bandwidth = BytesPerSecond(1e6);
  scenario.cluster.nvlink.bandwidth = BytesPerSecond(1e6);
  const MicrobatchCosts costs = costs_of(10.0, 12.0, 8.0);
  const StepTimes times = step_times({scenario, config, &costs});
  const int buckets = step_actions({scenario, config}).gradient_buckets.front();
  const Seconds collectives =
      buckets * (times.gathers.front().total() + times.reductions.front().total());
  EXPECT_GE(least_step_time({scenario, config, &costs}), collectives + Seconds(60.0));
}

// (m + p - 1)(F + B), which no order of equal stages in the memory of 1F1B can beat.
TEST(LeastStepTime, IsTheStepOfOneFOneB) {
  const ParallelConfig config = pipeline(ScheduleKind::kOneFOneB, 8);
  for (const int num_microbatches : {1, 4, 8, 64}) {
    const Scenario scenario = free_messages(scenario_of(config, num_microbatches));
    const MicrobatchCosts costs = costs_of(10.0, 12.0, 8.0);
    const double passes =
        least_step_time({scenario, config, &costs}).value() - end_of_step(scenario, config, costs);
    EXPECT_NEAR(passes / ((num_microbatches + 7) * 30.0), 1.0, kRounding) << num_microbatches;
  }
}

// m(F + I + W) + (p-1)(F+I-W), which no schedule in that memory can beat.
TEST(LeastStepTime, HasZbH1sBubble) {
  const ParallelConfig config = pipeline(ScheduleKind::kZbH1, 8);
  const Scenario scenario = free_messages(scenario_of(config, 64));
  const MicrobatchCosts costs = costs_of(10.0, 12.0, 8.0);
  const double passes =
      least_step_time({scenario, config, &costs}).value() - end_of_step(scenario, config, costs);
  EXPECT_NEAR(passes / (64 * 30.0 + 7 * 14.0), 1.0, kRounding);
}

// By hand, stages of 1 s forward and 2 s backward, the last one 3 s longer: it works 6 s on each
// microbatch, and the seven before it take 7 s forward and 14 back. In its own memory, one
// microbatch, nothing else happens before its first action and after its last.
TEST(LeastPasses, AreTheWorkOfARankAndTheStagesBeforeIt) {
  const ParallelConfig config = pipeline(ScheduleKind::kOneFOneB, 8);
  const Scenario scenario = scenario_of(config, 1);
  const MicrobatchCosts costs = costs_of(1.0, 1.0, 1.0, 1.0);
  const LeastPasses passes({scenario, config, &costs});
  for (const int num_microbatches : {1, 5, 100}) {
    EXPECT_DOUBLE_EQ(passes.time(num_microbatches).value(), num_microbatches * 6.0 + 21.0);
  }
}

}  // namespace
}  // namespace ptdp
