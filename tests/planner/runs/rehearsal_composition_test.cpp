// Tests of the cluster's iteration composed from rehearsed ranks.
#include "planner/runs/rehearsal_composition.h"

#include <gmock/gmock.h>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/validator/validator.h"
#include "cost_model/simulation/core_scheduler.h"
#include "planner/plan/plan_simulation.h"
#include "tests/planner/fake_machine.h"

namespace ptdp {
namespace {

using testing::ElementsAre;

/// Tolerance for messages in these tests: they take microseconds, and what is measured seconds.
constexpr double kOfMessages = 1e-3;

/// Returns twelve layers of a tiny model on ranks with a core each.
Scenario scenario_of(std::int64_t batch) {
  TransformerConfig model = small_model(64, 32);
  model.num_layers = 12;
  Scenario scenario = host_scenario(model, batch);
  scenario.cluster.cores_per_node.reset();
  scenario.cluster.busy_cores.clear();
  scenario.stack.microbatch_overhead = Seconds(0.0);
  scenario.stack.host_time_per_kernel = Seconds(0.0);
  scenario.cluster.gpu.kernel_latency = Seconds(0.0);
  return scenario;
}

Plan plan_of(const Scenario& scenario, const ParallelConfig& config) {
  return make_plan({scenario, config}, config.world_size(), 0.0, Calibration{});
}

ParallelConfig pipeline_of(int pp, ScheduleKind schedule = ScheduleKind::kOneFOneB, int vpp = 1) {
  ParallelConfig config = layout(1, pp, 1);
  config.schedule = schedule;
  config.vpp = vpp;
  return config;
}

/// Returns times in which every stage of the rank takes equally long.
RehearsedTimes equal_stages(const Plan& plan, int rank, Seconds forward, Seconds backward,
                            Seconds optimizer) {
  RehearsedTimes times{.rank = rank, .optimizer = optimizer};
  for (int chunk = 0; chunk < plan.config.vpp; ++chunk) {
    times.stages[chunk * plan.config.pp + rank] =
        stage_durations(forward, 0.5 * backward, 0.5 * backward);
  }
  return times;
}

std::vector<RehearsedTimes> all_equal(const Plan& plan, Seconds forward, Seconds backward,
                                      Seconds optimizer = Seconds(0.0)) {
  std::vector<RehearsedTimes> times;
  times.reserve(static_cast<std::size_t>(plan.config.pp));
  for (int rank = 0; rank < plan.config.pp; ++rank) {
    times.push_back(equal_stages(plan, rank, forward, backward, optimizer));
  }
  return times;
}

// 1F1B of m microbatches on p equal stages: (m + p − 1)(f + b), and the optimizer behind it. All
// ranks are rehearsed, whatever is predicted of them.
TEST(Compose, IsTheClosedFormOfOneFOneB) {
  for (const auto& [pp, m] :
       {std::pair(1, 5), std::pair(2, 16), std::pair(4, 16), std::pair(6, 6)}) {
    const Plan plan = plan_of(scenario_of(m), pipeline_of(pp));
    const Composition composition =
        compose(plan, all_equal(plan, Seconds(1.0), Seconds(2.0), Seconds(0.5)));
    const double expected = (m + pp - 1) * 3.0 + 0.5;
    EXPECT_NEAR(composition.step.value() / expected, 1.0, kOfMessages) << pp << ", " << m;
  }
}

// With v chunks a rank's passes are v shorter ones, and the bubble is (p − 1)(f + b) of one.
TEST(Compose, IsTheClosedFormOfTheInterleavedSchedule) {
  constexpr int pp = 2;
  constexpr int vpp = 3;
  constexpr int m = 8;
  const Plan plan = plan_of(scenario_of(m), pipeline_of(pp, ScheduleKind::kInterleaved, vpp));
  const Composition composition = compose(plan, all_equal(plan, Seconds(1.0), Seconds(2.0)));
  EXPECT_NEAR(composition.step.value() / ((m * vpp + pp - 1) * 3.0), 1.0, kOfMessages);
}

TEST(Compose, IsTheSimulationOfThePlanWithoutARehearsal) {
  for (const ScheduleKind schedule : {ScheduleKind::kOneFOneB, ScheduleKind::kZbH1}) {
    const Plan plan = plan_of(scenario_of(16), pipeline_of(4, schedule));
    EXPECT_NEAR(compose(plan, {}).step / simulate_plan(plan, {}).step, 1.0, 1e-12);
  }
}

// What is predicted is as much longer as published runs were, and what is measured is as it is.
TEST(Compose, TakesTheCalibrationsFactorForWhatIsNotMeasured) {
  ParallelConfig config = pipeline_of(3);
  config.tp = 2;
  const Plan plan = plan_of(scenario_of(16), config);
  Plan slower = plan;
  slower.predicted.calibration_factor = 1.25;
  EXPECT_NEAR(compose(slower, {}).step / compose(plan, {}).step, 1.25, 1e-9);
  const ComputeTimes times = predicted_alone(plan);
  const ComputeTimes slower_times = predicted_alone(slower);
  const Composition measured = compose(plan, all_equal(plan, Seconds(1.0), Seconds(2.0)));
  const Composition slower_measured = compose(slower, all_equal(plan, Seconds(1.0), Seconds(2.0)));
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_NEAR(slower_times.stages[rank].forward / times.stages[rank].forward, 1.25, 1e-9);
    EXPECT_NEAR(slower_times.optimizer[rank] / times.optimizer[rank], 1.25, 1e-9);
    const Seconds collectives = measured.collectives[rank].forward;
    EXPECT_GT(collectives, Seconds(0.0));
    EXPECT_NEAR(slower_measured.collectives[rank].forward / collectives, 1.25, 1e-9);
    EXPECT_NEAR(slower_measured.times.stages[rank].forward.value(),
                1.0 + 1.25 * collectives.value(), 1e-9);
  }
}

// What passes gather and reduce is no compute that is measured, and no tensor parallelism.
TEST(Compose, KeepsCollectivesOfShardedUnitsBesideWhatIsMeasured) {
  for (const int zero : {2, 3}) {
    ParallelConfig config = layout(1, 1, 2);
    config.zero_stage = zero;
    const Plan plan = plan_of(scenario_of(8), config);
    const Composition alone = compose(plan, {});
    EXPECT_NEAR(alone.step / simulate_plan(plan, {}).step, 1.0, 1e-12) << zero;
    EXPECT_EQ(alone.terms[RunTerm::kTensorParallel], Seconds(0.0)) << zero;
    const auto microbatches = static_cast<double>(plan.schedule.num_microbatches);
    const Composition measured = compose(plan, all_equal(plan, Seconds(1.0), Seconds(2.0)));
    EXPECT_GT(measured.step, Seconds(3.0 * microbatches)) << zero;
    EXPECT_NEAR(measured.times.stages[0].forward.value() - 1.0,
                measured.collectives[0].forward.value(), 1e-9)
        << zero;
    EXPECT_GT(measured.collectives[0].backward, Seconds(0.0)) << zero;
  }
}

/// Returns times of ranks that take exactly what is predicted of them.
std::vector<RehearsedTimes> as_predicted(const Plan& plan, const std::vector<int>& ranks) {
  const ComputeTimes predicted = predicted_alone(plan);
  std::vector<RehearsedTimes> rehearsed;
  for (const int rank : ranks) {
    const auto place = static_cast<std::size_t>(rank);
    RehearsedTimes times{
        .rank = rank, .norm = predicted.norm[place], .optimizer = predicted.optimizer[place]};
    for_each_virtual_stage(plan.config, rank, [&](int stage) {
      times.stages[stage] = predicted.stages[static_cast<std::size_t>(stage)];
    });
    rehearsed.push_back(times);
  }
  return rehearsed;
}

// A rehearsal that finds what was predicted changes nothing, whichever ranks it is of: embedding,
// logits, layers, what cores share, and the collectives that it did not see are put back.
TEST(Compose, GivesThePredictionBackToRanksThatTakeWhatIsPredicted) {
  Scenario shared = scenario_of(16);
  shared.cluster.cores_per_node = 8;
  shared.cluster.busy_cores = {{.cores = 2,
                                .matmul = 1.2,
                                .attention = 1.1,
                                .memory_bound = 1.5,
                                .optimizer = 1.6,
                                .skew = 0.05}};
  ParallelConfig split = pipeline_of(3);
  split.tp = 2;
  split.sequence_parallel = true;
  split.recompute = Recompute::kFull;
  ParallelConfig uneven = pipeline_of(4);
  uneven.layers_per_stage = {2, 4, 4, 2};
  for (const ParallelConfig& config :
       {pipeline_of(3), split, uneven, pipeline_of(2, ScheduleKind::kInterleaved, 3),
        pipeline_of(3, ScheduleKind::kZbV, 2), pipeline_of(4, ScheduleKind::kDualPipe)}) {
    for (const Scenario& scenario : {scenario_of(16), shared}) {
      const Plan plan = plan_of(scenario, config);
      const Seconds expected = compose(plan, {}).step;
      for (const std::vector<int>& ranks :
           {std::vector<int>{0}, std::vector<int>{1}, std::vector<int>{0, 1, config.pp - 1}}) {
        // The norm of the rank with most parameters counts, in the plan the last one's.
        EXPECT_NEAR(compose(plan, as_predicted(plan, ranks)).step / expected, 1.0, 5e-3)
            << to_string(config) << " " << ranks.size();
      }
    }
  }
}

TEST(Compose, TakesTheNearestRankAndTheMiddleForThoseBetween) {
  const Plan plan = plan_of(scenario_of(12), pipeline_of(6));
  const auto sources = [&](const std::vector<int>& ranks) {
    return compose(plan, as_predicted(plan, ranks)).sources;
  };
  EXPECT_THAT(sources({0, 3, 5}), ElementsAre(0, 3, 3, 3, 3, 5));
  EXPECT_THAT(sources({3}), ElementsAre(3, 3, 3, 3, 3, 3));
  EXPECT_THAT(sources({0, 5}), ElementsAre(0, 0, 0, 5, 5, 5));
  EXPECT_THAT(sources({1, 4}), ElementsAre(1, 1, 1, 4, 4, 4));
}

// Between the ends a rank with twice the layers takes twice as long.
TEST(Compose, ScalesByLayers) {
  ParallelConfig config = pipeline_of(4);
  config.layers_per_stage = {2, 2, 4, 4};
  const Plan plan = plan_of(scenario_of(8), config);
  const std::vector<RehearsedTimes> rehearsed = {
      equal_stages(plan, 1, Seconds(1.0), Seconds(2.0), Seconds(0.1))};
  const StepTimes times = compose(plan, rehearsed).times;
  EXPECT_NEAR(times.stages[1].forward.value(), 1.0, 1e-12);
  EXPECT_NEAR(times.stages[2].forward.value(), 2.0, 1e-9);
  EXPECT_NEAR(times.stages[2].backward.value(), 4.0, 0.05);  // (m − 1)/m of accumulations
}

// Four ranks on two cores: twice the mean work, longer than any path through the pipeline, and
// while it fills and drains a core may be idle.
TEST(Compose, HasRanksTakeTurnsOnTheirCores) {
  Scenario scenario = scenario_of(16);
  scenario.cluster.cores_per_node = 2;
  const Plan plan = plan_of(scenario, pipeline_of(4));
  const Composition composition =
      compose(plan, all_equal(plan, Seconds(1.0), Seconds(2.0), Seconds(0.5)));
  // 16 microbatches of 3 s and the optimizer, on half a core; rank 0 begins and ends by itself.
  const double work = 2.0 * (16 * 3.0 + 0.5);
  EXPECT_GE(composition.step.value(), work + 0.5 * 3.0);
  EXPECT_LE(composition.step.value(), work + 0.5 * 3 * 3.0);
  const std::vector<StageDurations> each(4,
                                         stage_durations(Seconds(1.0), Seconds(1.0), Seconds(1.0)));
  const Seconds passes = time_on_shared_cores(complete_schedule(plan), each, 1, 2);
  EXPECT_NEAR(composition.step.value() / (passes.value() + 1.0), 1.0, kOfMessages);
  // The sharing adds what exceeds (16 + 3)·3 s and the optimizer.
  EXPECT_NEAR(composition.core_contention.value() / (passes.value() + 1.0 - 57.5), 1.0,
              kOfMessages);
}

// Replicas take turns on a core as stages do; their reductions keep no core busy.
TEST(Compose, HasReplicasTakeTurnsOnTheirCores) {
  Scenario scenario = scenario_of(32);
  scenario.cluster.cores_per_node = 2;
  ParallelConfig config = pipeline_of(2);
  config.dp = 2;
  config.zero_stage = 1;
  const Plan plan = plan_of(scenario, config);
  const Composition composition =
      compose(plan, all_equal(plan, Seconds(1.0), Seconds(2.0), Seconds(0.5)));
  const double work = 2.0 * (16 * 3.0 + 0.5);
  EXPECT_GE(composition.step.value(), work);
  EXPECT_LE(composition.step.value(), work + 3.0 + kOfMessages);  // one stage of each begins
}

// Two ranks on two cores of a host that is half as fast again with both busy.
TEST(Compose, SlowsDownAsBusyCoresDo) {
  Scenario scenario = scenario_of(16);
  scenario.cluster.cores_per_node = 2;
  scenario.cluster.busy_cores = {
      {.cores = 2, .matmul = 1.5, .attention = 1.5, .memory_bound = 1.5, .optimizer = 1.5}};
  const Plan plan = plan_of(scenario, pipeline_of(2));
  const Composition composition = compose(plan, all_equal(plan, Seconds(1.0), Seconds(2.0)));
  // Adding up gradients of the embedding is predicted alike on busy cores: 2 % of these stages.
  EXPECT_NEAR(composition.step.value() / (1.5 * 17 * 3.0), 1.0, 0.02);
}

TEST(Compose, AddsUpItsTerms) {
  ParallelConfig config = pipeline_of(3);
  config.tp = 2;
  config.dp = 2;
  const Plan plan = plan_of(scenario_of(16), config);
  std::vector<RehearsedTimes> rehearsed = all_equal(plan, Seconds(1.0), Seconds(2.0), Seconds(0.5));
  for (RehearsedTimes& times : rehearsed) {
    times.matmul_share = 0.5;
    times.attention_share = 0.25;
  }
  const Composition composition = compose(plan, rehearsed);
  const RunTerms& terms = composition.terms;
  EXPECT_NEAR((terms.own() + terms[RunTerm::kBubble]) / composition.step, 1.0, 1e-12);
  // Eight microbatches of 3 s.
  EXPECT_NEAR(terms[RunTerm::kMatmul].value(), 12.0, 1e-9);
  EXPECT_NEAR(terms[RunTerm::kAttention].value(), 6.0, 1e-9);
  EXPECT_NEAR(terms[RunTerm::kMemoryBound].value(), 6.0, 1e-9);
  EXPECT_GT(terms[RunTerm::kTensorParallel], Seconds(0.0));
}

// Rank r of 1F1B holds p − r microbatches: twice as many are run.
TEST(RehearsedMicrobatches, AreTwiceThoseInFlight) {
  const Plan plan = plan_of(scenario_of(64), pipeline_of(4));
  EXPECT_EQ(rehearsed_microbatches(plan, 0), 8);
  EXPECT_EQ(rehearsed_microbatches(plan, 1), 6);
  EXPECT_EQ(rehearsed_microbatches(plan, 3), 2);
  EXPECT_EQ(rehearsed_microbatches(plan_of(scenario_of(5), pipeline_of(4)), 0), 5);  // all
  EXPECT_EQ(
      rehearsed_microbatches(plan_of(scenario_of(8), pipeline_of(4, ScheduleKind::kGPipe)), 1), 8);
}

TEST(RehearsedMicrobatches, FillARankAsAllOfThemDo) {
  for (const ScheduleTraits& generator : kSchedules) {
    Plan plan = plan_of(scenario_of(24), pipeline_of(3));
    if (!generator.is_synchronous || change_schedule(plan, generator)) {
      continue;
    }
    const std::vector<int> held = peak_activations(complete_schedule(plan));
    for (int rank = 0; rank < plan.config.pp; ++rank) {
      Plan part = plan;
      part.schedule.num_microbatches = rehearsed_microbatches(plan, rank);
      EXPECT_LE(part.schedule.num_microbatches, plan.schedule.num_microbatches);
      const Schedule schedule = complete_schedule(part);
      EXPECT_FALSE(find_fault(schedule).has_value()) << generator.name;
      EXPECT_EQ(peak_activations(schedule)[rank], held[rank]) << generator.name << " " << rank;
    }
  }
}

TEST(MiddleRank, IsTheBusiestInTheMiddle) {
  EXPECT_EQ(middle_rank(plan_of(scenario_of(8), pipeline_of(1))), 0);
  EXPECT_EQ(middle_rank(plan_of(scenario_of(8), pipeline_of(2))), 1);
  EXPECT_EQ(middle_rank(plan_of(scenario_of(8), pipeline_of(3))), 1);
  EXPECT_EQ(middle_rank(plan_of(scenario_of(8), pipeline_of(6))), 3);
  ParallelConfig uneven = pipeline_of(4);
  uneven.layers_per_stage = {3, 4, 3, 2};
  EXPECT_EQ(middle_rank(plan_of(scenario_of(8), uneven)), 1);
}

TEST(ModelledOf, ListsWhatTheConfigurationHasThatARankAloneHasNot) {
  const std::string norm = "the exchange of the norm";
  const std::string messages = "messages between the 4 stages, and waiting for them";
  const std::string tied = "the all-reduce of the tied embedding's gradient";
  const std::string others =
      "ranks that were not rehearsed: they have the times of the nearest one that was, scaled by "
      "what is predicted of both (layers, embedding, logits)";
  EXPECT_THAT(modelled_of(plan_of(scenario_of(8), layout(1, 1, 1)), 1), ElementsAre());
  EXPECT_THAT(modelled_of(plan_of(scenario_of(8), layout(1, 4, 1)), 4),
              ElementsAre(messages, tied, norm));
  EXPECT_THAT(modelled_of(plan_of(scenario_of(8), layout(1, 4, 1)), 3),
              ElementsAre(messages, tied, norm, others));
  EXPECT_THAT(
      modelled_of(plan_of(scenario_of(8), layout(2, 1, 1)), 1),
      ElementsAre(
          "collectives of 2 tensor-parallel ranks within passes, and waiting for the slowest",
          norm));
  Scenario scenario = scenario_of(8);
  scenario.job.model.untied_embeddings = true;
  scenario.cluster.cores_per_node = 64;
  EXPECT_THAT(
      modelled_of(plan_of(scenario, layout(1, 4, 2)), 4),
      ElementsAre(messages, "reductions and gathers over 2 replicas, and what hides them", norm,
                  "what ranks lose to others that compute on the cores of their host"));
  scenario.cluster.cores_per_node.reset();
  scenario.cluster.gpu.card_spread = 0.01;
  EXPECT_THAT(modelled_of(plan_of(scenario, layout(1, 4, 2)), 4),
              ElementsAre(messages, "reductions and gathers over 2 replicas, and what hides them",
                          norm, "what all lose to the slowest of 8 cards"));
}

TEST(PredictedAlone, IsOnACardOfMeanSpeed) {
  Scenario scenario = scenario_of(8);
  const Plan alike = plan_of(scenario, layout(1, 4, 1));
  scenario.cluster.gpu.card_spread = 0.05;
  const Plan differing = plan_of(scenario, layout(1, 4, 1));
  EXPECT_EQ(predicted_alone(differing).stages[1].forward, predicted_alone(alike).stages[1].forward);
  EXPECT_GT(differing.predicted.iteration_time.value, alike.predicted.iteration_time.value);
}

}  // namespace
}  // namespace ptdp
