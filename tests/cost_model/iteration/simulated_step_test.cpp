// Tests of simulated steps: bubbles of the papers, many microbatches, uneven stages.
#include "cost_model/iteration/simulated_step.h"

#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "cost_model/iteration/schedule_shape.h"
#include "cost_model/iteration/step_builder.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "cost_model/simulation/engine/step_simulator.h"
#include "tests/cost_model/simulation/plain_pipelines.h"

namespace ptdp {
namespace {

constexpr std::array kSimulatedKinds = {
    ScheduleKind::kOneFOneB,  ScheduleKind::kInterleaved, ScheduleKind::kGPipe,
    ScheduleKind::kLoopedBfs, ScheduleKind::kZbH1,        ScheduleKind::kZbH2,
    ScheduleKind::kZbV,       ScheduleKind::kVHalf,       ScheduleKind::kVMin,
    ScheduleKind::kDualPipe,  ScheduleKind::kDualPipeV,   ScheduleKind::kZbAuto};

/// Returns how much longer the passes take than the work of one rank; all ranks have equal work.
double bubble_of(const Scenario& scenario, const ParallelConfig& config, double f, double i,
                 double w) {
  StepSimulations simulations;
  const MicrobatchCosts costs = costs_of(f, i, w);
  const Seconds passes = simulations.parts({scenario, config, &costs}).passes;
  return passes.value() -
         static_cast<double>(scenario.job.global_batch_size) * config.vpp * (f + i + w);
}

// GPipe and 1F1B (p-1)(F+B), interleaved and looped BFS that of a chunk (SC21 section 2.2; looped
// BFS arXiv:2211.05953). schedules.md of the sources: DualPipe (p/2-1)(F&B+B-3W), ZB-H1
// (p-1)(F+I-W); the others at F = I = W, in chunks: ZB-H2 and ZB-V (p-1)F, V-Half 3p-7 and V-Min
// 4p-5, DualPipeV (p-1)(2F).
TEST(SimulatedSteps, HaveTheBubblesThatThePapersState) {
  struct Row {
    ScheduleKind schedule;
    int pp;
    std::array<double, 3> times;
    double bubble;
  };
  for (const Row& row : {Row{ScheduleKind::kOneFOneB, 8, {10.0, 12.0, 8.0}, 7 * 30.0},
                         Row{ScheduleKind::kGPipe, 8, {10.0, 12.0, 8.0}, 7 * 30.0},
                         Row{ScheduleKind::kInterleaved, 8, {10.0, 12.0, 8.0}, 7 * 30.0},
                         Row{ScheduleKind::kLoopedBfs, 8, {10.0, 12.0, 8.0}, 7 * 30.0},
                         Row{ScheduleKind::kZbH1, 8, {10.0, 12.0, 8.0}, 7 * 14.0},
                         Row{ScheduleKind::kZbH2, 8, {1.0, 1.0, 1.0}, 7.0},
                         Row{ScheduleKind::kZbV, 8, {1.0, 1.0, 1.0}, 7.0},
                         Row{ScheduleKind::kVHalf, 8, {1.0, 1.0, 1.0}, 17.0},
                         Row{ScheduleKind::kVMin, 10, {1.0, 1.0, 1.0}, 35.0},
                         Row{ScheduleKind::kDualPipe, 8, {1.0, 1.0, 1.0}, 3 * 2.0},
                         Row{ScheduleKind::kDualPipeV, 8, {1.0, 1.0, 1.0}, 7 * 2.0}}) {
    const ParallelConfig config = pipeline(row.schedule, row.pp);
    const auto [f, i, w] = row.times;
    EXPECT_NEAR(bubble_of(scenario_of(config, 4 * row.pp), config, f, i, w), row.bubble, 1e-9)
        << name_of(row.schedule);
  }
}

// Zero Bubble (arXiv:2401.10241): of the times that it profiled (table 9) its table 5 calculates
// the share of the longest stage's time that is no work. The iteration ends for each stage when it
// is done itself; messages take T_comm. It knows no tied embedding, for which the first rank would
// wait for the last.
TEST(SimulatedSteps, HaveTheBubbleRatesOfTheZeroBubblePaper) {
  struct Row {
    int pp;
    int num_microbatches;
    std::array<double, 4> times;  // F, B, W, comm [ms]
    double zb_h1;
    double zb_h2;
  };
  for (const Row& row : {Row{8, 24, {18.522, 18.086, 9.337, 0.601}, 0.1585, 0.1083},
                         Row{8, 32, {18.513, 18.086, 9.331, 0.626}, 0.1242, 0.0837},
                         Row{8, 64, {18.546, 18.097, 9.321, 0.762}, 0.0674, 0.0444},
                         Row{8, 24, {29.718, 29.444, 19.927, 0.527}, 0.1323, 0.0698},
                         Row{16, 48, {11.347, 11.248, 8.132, 0.377}, 0.1397, 0.0672},
                         Row{32, 96, {10.419, 10.207, 7.715, 0.408}, 0.1421, 0.0641},
                         Row{32, 256, {10.402, 10.248, 7.698, 0.460}, 0.0594, 0.0257}}) {
    const auto [f, i, w, comm] = row.times;
    for (const auto& [kind, published] :
         {std::pair(ScheduleKind::kZbH1, row.zb_h1), std::pair(ScheduleKind::kZbH2, row.zb_h2)}) {
      const ParallelConfig config = pipeline(kind, row.pp);
      Scenario scenario = scenario_of(config, row.num_microbatches);
      scenario.stack.optimizer_post_validation = true;
      scenario.stack.pipeline_latency = Seconds(comm);
      scenario.job.model.untied_embeddings = true;
      scenario.job.model.hidden_size = 1;  // so that messages take no more than that
      StepSimulations simulations;
      const MicrobatchCosts costs = costs_of(f, i, w);
      const double time = simulations.parts({scenario, config, &costs}).with_messages.value();
      EXPECT_NEAR(1.0 - row.num_microbatches * (f + i + w) / time, published, 0.004)
          << name_of(kind) << " p " << row.pp << " m " << row.num_microbatches;
    }
  }
}

/// Returns the time of a step with all its microbatches, simulated action by action.
Seconds step_in_full(const Scenario& scenario, const ParallelConfig& config,
                     const MicrobatchCosts& costs) {
  const Schedule schedule =
      complete(traits_of(config.schedule).generate(schedule_shape({scenario, config, &costs})),
               step_actions({scenario, config}));
  StepTimes times = step_times({scenario, config, &costs});
  times.shares_links = true;
  return simulate_step_times(schedule, times).makespan();
}

// More microbatches than are simulated. V-Min's rhythm is longer than one round of them, and the
// slower messages between nodes take interleaved rounds longer to settle.
TEST(SimulatedSteps, ContinueTheRhythmOfManyMicrobatches) {
  constexpr int num_ranks = 32;
  for (const int microbatches : {20 * num_ranks, 20 * num_ranks + 2}) {
    for (const ScheduleKind kind : kSimulatedKinds) {
      const ParallelConfig config = pipeline(kind, num_ranks);
      const Scenario scenario = scenario_of(config, microbatches);
      ASSERT_LT(simulated_actions(config, microbatches),
                0.7 * simulated_actions(config, 1) * microbatches);
      for (const auto& [f, i, w] :
           {std::tuple(1.0, 1.0, 1.0), std::tuple(10.0, 12.0, 8.0), std::tuple(18.5, 18.1, 9.3)}) {
        const MicrobatchCosts costs = costs_of(f, i, w);
        StepSimulations simulations;
        const double tolerance = kind == ScheduleKind::kVMin          ? 3e-3
                                 : kind == ScheduleKind::kInterleaved ? 1e-4
                                                                      : 1e-5;
        EXPECT_NEAR(simulations.simulate({scenario, config, &costs}) /
                        step_in_full(scenario, config, costs),
                    1.0, tolerance)
            << name_of(kind) << " F " << f << " m " << microbatches;
      }
    }
  }
}

// One stage has nobody to wait for: its step begins with what it gathers and ends with its
// optimizer whether or not others would be waited for.
TEST(SimulatedSteps, OfOneStageAreTheSameForRanksThatGoOn) {
  Scenario scenario = shipped_scenario("3.6B", "selene-a100", "megatron-lm-2023", 64);
  for (const DataParallelOverlap overlap :
       {DataParallelOverlap::kNever, DataParallelOverlap::kAlways}) {
    scenario.stack.data_parallel_overlap = overlap;
    const ParallelConfig config{.tp = 2, .dp = 4, .zero_stage = 1};
    const MicrobatchCosts costs = microbatch_costs(scenario, config);
    StepSimulations simulations;
    scenario.stack.optimizer_post_validation = false;
    const Seconds waiting = simulations.simulate({scenario, config, &costs});
    scenario.stack.optimizer_post_validation = true;
    EXPECT_EQ(simulations.simulate({scenario, config, &costs}), waiting);
  }
}

TEST(SimulatedSteps, OfFewActionsAreSimulatedInFull) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2023", 64);
  for (const ScheduleKind kind : kSimulatedKinds) {
    for (const int zero_stage : {0, 1}) {
      ParallelConfig config = pipeline(kind, 4);
      config.tp = 8;
      config.dp = 2;
      config.zero_stage = zero_stage;
      const MicrobatchCosts costs = microbatch_costs(scenario, config);
      StepSimulations simulations;
      EXPECT_NEAR(
          simulations.simulate({scenario, config, &costs}) / step_in_full(scenario, config, costs),
          1.0, 1e-12)
          << name_of(kind) << " ZeRO-" << zero_stage;
    }
  }
}

// The simulator of compute alone on every microbatch: the last stage is heavier by the share that
// logits have in the models of SC21's table 1. Rhythms of uneven stages settle within 1e-9 of a
// step too.
TEST(SimulatedSteps, OfUnevenStagesAreThoseOfTheFastSimulator) {
  for (const int vpp : {1, 2, 3, 4}) {
    for (const int pp : {2, 3, 4, 6, 8, 16, 32, 64}) {
      for (const int rounds : {1, 2, 3, 4, 8, 16}) {
        for (const double heavier_by : {0.0, 0.05, 0.1, 0.2, 0.3}) {
          const double logits = 4.0 * vpp * heavier_by / 3.0;
          const ParallelConfig config{
              .pp = pp,
              .vpp = vpp,
              .schedule = vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB};
          const ScheduleShape shape{.pp = pp, .vpp = vpp, .num_microbatches = rounds * pp};
          std::vector<StageDurations> durations(
              static_cast<std::size_t>(pp) * vpp,
              stage_durations(Seconds(1.0), Seconds(1.5), Seconds(1.5)));
          durations.back() =
              stage_durations(Seconds(1.0 + logits), Seconds(1.5 + logits), Seconds(1.5 + logits));
          const Seconds expected =
              simulate(vpp > 1 ? interleaved(shape) : one_f_one_b(shape), durations).makespan();
          StepSimulations simulations;
          const Scenario scenario = scenario_of(config, rounds * pp);
          const MicrobatchCosts costs = costs_of(1.0, 1.5, 1.5, logits);
          const StepParts parts = simulations.parts({scenario, config, &costs});
          EXPECT_NEAR(parts.passes / expected, 1.0, 1e-9)
              << "p " << pp << " v " << vpp << " rounds " << rounds << " +" << heavier_by;
        }
      }
    }
  }
}

TEST(StepParts, AddUpToTheStep) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 64);
  for (const ScheduleKind kind : kSimulatedKinds) {
    ParallelConfig config = pipeline(kind, 4);
    config.tp = 8;
    config.dp = 2;
    const MicrobatchCosts costs = microbatch_costs(scenario, config);
    StepSimulations simulations;
    const StepParts parts = simulations.parts({scenario, config, &costs});
    EXPECT_GT(parts.passes, Seconds(0.0)) << name_of(kind);
    EXPECT_GT(parts.with_messages, parts.passes) << name_of(kind);
    EXPECT_GT(parts.whole, parts.with_messages) << name_of(kind);
    EXPECT_EQ(parts.whole, simulations.simulate({scenario, config, &costs})) << name_of(kind);
  }
}

// A schedule that is remembered must be the one that is asked for: each pair of these differs in
// one thing that decides the schedule.
TEST(StepSimulations, RememberEachScheduleForItself) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2023", 64);
  Scenario untied = scenario;
  untied.job.model.untied_embeddings = true;
  Scenario overlapping = scenario;
  overlapping.stack.data_parallel_overlap = DataParallelOverlap::kAlways;
  Scenario going_on = scenario;
  going_on.stack.optimizer_post_validation = true;
  const ParallelConfig zb_auto{.tp = 8, .pp = 4, .dp = 2, .schedule = ScheduleKind::kZbAuto};
  ParallelConfig sharded = zb_auto;
  sharded.zero_stage = 1;
  ParallelConfig roomy = zb_auto;
  roomy.memory_limit = 7;
  ParallelConfig larger = zb_auto;
  larger.micro_batch_size = 2;
  ParallelConfig repeating = zb_auto;
  repeating.recompute = Recompute::kFull;
  StepSimulations shared;
  for (int round = 0; round < 2; ++round) {
    for (const Scenario* in :
         std::array<const Scenario*, 4>{&scenario, &untied, &overlapping, &going_on}) {
      for (const ParallelConfig& config : {zb_auto, sharded, roomy, larger, repeating}) {
        const MicrobatchCosts costs = microbatch_costs(*in, config);
        StepSimulations fresh;
        const PlannedJob job(*in, config, &costs);
        EXPECT_EQ(shared.simulate(job), fresh.simulate(job)) << to_string(config);
      }
    }
  }
}

}  // namespace
}  // namespace ptdp
