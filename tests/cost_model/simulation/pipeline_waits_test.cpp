#include "cost_model/simulation/virtual_stage_durations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "cost_model/analytic/iteration.h"
#include "cost_model/schedule/generators.h"
#include "cost_model/schedule/validator.h"
#include "cost_model/simulation/schedule_shape.h"
#include "cost_model/simulation/simulator.h"
#include "tests/cost_model/scenarios.h"

namespace ptdp {
namespace {

constexpr std::array kSimulatedKinds = {
    ScheduleKind::kZbH1, ScheduleKind::kZbH2,     ScheduleKind::kZbV,       ScheduleKind::kVHalf,
    ScheduleKind::kVMin, ScheduleKind::kDualPipe, ScheduleKind::kDualPipeV, ScheduleKind::kZbAuto};

bool has_two_chunks(ScheduleKind schedule) {
  return placement_of(schedule) == StagePlacement::kV;
}

/// A scenario whose model has one layer per virtual stage, and messages that take no time.
Scenario scenario_of(const ParallelConfig& config, int num_microbatches) {
  Scenario scenario = selene_2021("1.7B", num_microbatches);
  scenario.job.model.num_layers = config.pp * config.vpp;
  scenario.stack.microbatch_overhead = Seconds(0.0);
  return scenario;
}

/// Costs of layers with these durations, in seconds.
MicrobatchCosts costs_of(double forward, double input_gradient, double weight_gradient,
                         double logits = 0.0) {
  MicrobatchCosts costs{
      .layers = {LayerCosts{.forward = {.matmul = Seconds(forward)},
                            .backward = {.matmul = Seconds(input_gradient + weight_gradient)},
                            .weight_gradient = {.matmul = Seconds(weight_gradient)}}},
      .logits = {.matmul = Seconds(3.0 * logits)}};
  costs.logits_forward = Seconds(logits);
  costs.logits_weight_gradient = Seconds(logits);
  return costs;
}

ParallelConfig pipeline(ScheduleKind schedule, int pp) {
  return {.pp = pp, .vpp = has_two_chunks(schedule) ? 2 : 1, .schedule = schedule};
}

// schedules.md of the sources: DualPipe (p/2-1)(F&B+B-3W), ZB-H1 (p-1)(F+I-W); the others at
// F = I = W, in chunks: ZB-H2 and ZB-V (p-1)F, V-Half 3p-7 and V-Min 4p-5, DualPipeV (p-1)(2F).
TEST(SimulatedWaits, HaveTheBubblesThatThePapersState) {
  struct Row {
    ScheduleKind schedule;
    int pp;
    std::array<double, 3> times;
    double bubble;
  };
  for (const Row& row : {Row{ScheduleKind::kZbH1, 8, {10.0, 12.0, 8.0}, 7 * 14.0},
                         Row{ScheduleKind::kZbH2, 8, {1.0, 1.0, 1.0}, 7.0},
                         Row{ScheduleKind::kZbV, 8, {1.0, 1.0, 1.0}, 7.0},
                         Row{ScheduleKind::kVHalf, 8, {1.0, 1.0, 1.0}, 17.0},
                         Row{ScheduleKind::kVMin, 10, {1.0, 1.0, 1.0}, 35.0},
                         Row{ScheduleKind::kDualPipe, 8, {1.0, 1.0, 1.0}, 3 * 2.0},
                         Row{ScheduleKind::kDualPipeV, 8, {1.0, 1.0, 1.0}, 7 * 2.0}}) {
    const ParallelConfig config = pipeline(row.schedule, row.pp);
    const auto [f, i, w] = row.times;
    const PipelineWaits waits =
        simulated_waits(scenario_of(config, 4 * row.pp), config, costs_of(f, i, w));
    EXPECT_NEAR(waits.bubble.value(), row.bubble, 1e-9) << name_of(row.schedule);
  }
}

// Zero Bubble (arXiv:2401.10241): of the times that it profiled (table 9) its table 5 calculates
// the share of the longest stage's time that is no work. The iteration ends for each stage when it
// is done itself; messages take T_comm.
TEST(SimulatedWaits, HaveTheBubbleRatesOfTheZeroBubblePaper) {
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
      scenario.job.model.hidden_size = 1;  // so that messages take no more than that
      const PipelineWaits waits = simulated_waits(scenario, config, costs_of(f, i, w));
      const double idle = (waits.bubble + waits.messages).value();
      EXPECT_NEAR(idle / (idle + row.num_microbatches * (f + i + w)), published, 0.004)
          << name_of(kind) << " p " << row.pp << " m " << row.num_microbatches;
    }
  }
}

// DualPipe keeps two ranks busy all the time; sums that differ in their last digit must not make
// that less than nothing, which no plan may hold.
TEST(SimulatedWaits, AreNotNegative) {
  const ParallelConfig config = pipeline(ScheduleKind::kDualPipe, 2);
  const Scenario scenario = scenario_of(config, 8);
  for (int i = 1; i <= 100; ++i) {
    const PipelineWaits waits =
        simulated_waits(scenario, config, costs_of(0.1 * i, 0.07 * i + 0.03, 0.013 * i));
    EXPECT_GE(waits.bubble, Seconds(0.0)) << i;
    EXPECT_GE(waits.messages, Seconds(0.0)) << i;
  }
}

TEST(LeastWaits, AreNeverMoreThanTheSimulatedOnes) {
  for (const ScheduleKind kind : kSimulatedKinds) {
    for (const int pp : {2, 4, 6, 8, 12}) {
      for (const int num_microbatches : {2, 4, pp, 2 * pp, 4 * pp}) {
        const ParallelConfig config = pipeline(kind, pp);
        const ScheduleShape shape{
            .pp = pp, .vpp = config.vpp, .num_microbatches = num_microbatches};
        if (find_schedule_generator(name_of(kind))->find_conflict(shape).has_value()) {
          continue;
        }
        for (const auto& [f, i, w, logits] :
             {std::tuple(1.0, 1.0, 1.0, 0.0), std::tuple(10.0, 12.0, 8.0, 0.0),
              std::tuple(10.0, 12.0, 8.0, 4.0), std::tuple(3.0, 9.0, 2.0, 1.0),
              std::tuple(5.0, 2.0, 9.0, 0.0)}) {
          Scenario scenario = scenario_of(config, num_microbatches);
          for (const bool validates_later : {false, true}) {
            scenario.stack.optimizer_post_validation = validates_later;
            const MicrobatchCosts costs = costs_of(f, i, w, logits);
            EXPECT_LE(least_waits(scenario, config, costs).bubble,
                      simulated_waits(scenario, config, costs).bubble)
                << name_of(kind) << " p " << pp << " m " << num_microbatches << " F " << f;
          }
        }
      }
    }
  }
}

// (p-1)(F+I-W), which no schedule in that memory can beat.
TEST(LeastWaits, AreZbH1sBubble) {
  const ParallelConfig config = pipeline(ScheduleKind::kZbH1, 8);
  const Scenario scenario = scenario_of(config, 64);
  const MicrobatchCosts costs = costs_of(10.0, 12.0, 8.0);
  EXPECT_NEAR(least_waits(scenario, config, costs).bubble.value(), 7 * 14.0, 1e-6);
}

constexpr int kRanks = 32;
constexpr int kMicrobatches = 20 * kRanks;

// More microbatches than are simulated: against the simulation of all of them.
TEST(SimulatedWaits, ContinueTheRhythmOfManyMicrobatches) {
  for (const ScheduleKind kind : kSimulatedKinds) {
    const ParallelConfig config = pipeline(kind, kRanks);
    const Scenario scenario = scenario_of(config, kMicrobatches);
    ASSERT_LT(simulated_actions(config, kMicrobatches), 3.0 * config.vpp * kRanks * kMicrobatches);
    for (const auto& [f, i, w] :
         {std::tuple(1.0, 1.0, 1.0), std::tuple(10.0, 12.0, 8.0), std::tuple(18.5, 18.1, 9.3)}) {
      const Schedule schedule = find_schedule_generator(name_of(kind))
                                    ->generate(schedule_shape(scenario, config, costs_of(f, i, w)));
      const PipelineWaits waits = simulated_waits(scenario, config, costs_of(f, i, w));
      const std::vector<StageDurations> durations = {
          stage_durations(Seconds(f), Seconds(i), Seconds(w))};
      const double makespan = simulate(schedule, durations).makespan().value();
      const double predicted = waits.bubble.value() + kMicrobatches * config.vpp * (f + i + w);
      const double tolerance = kind == ScheduleKind::kVMin ? 3e-3 : 1e-5;
      EXPECT_NEAR(predicted / makespan, 1.0, tolerance) << name_of(kind) << " F " << f;
    }
  }
}

TEST(VirtualStageDurations, AddUpToWhatTheirGpusSpend) {
  for (const ScheduleKind kind : kSimulatedKinds) {
    const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 64);
    ParallelConfig config = pipeline(kind, 4);
    config.tp = 8;
    config.recompute = Recompute::kSelective;
    const MicrobatchCosts costs = microbatch_costs(scenario, config);
    const std::vector<StageDurations> durations = virtual_stage_durations(scenario, config, costs);
    Seconds of_stages;
    for (const StageDurations& stage : durations) {
      of_stages += stage.forward + stage.backward;
    }
    Seconds of_gpus;
    for (int stage = 0; stage < config.pp; ++stage) {
      of_gpus += stage_costs(scenario, config, costs, stage).total();
    }
    EXPECT_NEAR(of_stages / of_gpus, 1.0, 1e-12) << name_of(kind);
  }
}

TEST(SimulatedWaits, AddUpToTheWholeWait) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 64);
  const ParallelConfig config{.tp = 8, .pp = 4, .dp = 2, .schedule = ScheduleKind::kZbH1};
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const PipelineWaits waits = simulated_waits(scenario, config, costs);
  EXPECT_GT(waits.messages, Seconds(0.0));
  EXPECT_NEAR((waits.bubble + waits.messages) / simulated_wait(scenario, config, costs), 1.0,
              1e-12);
}

TEST(WaitsCache, KnowsWhatItHasSimulated) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 64);
  ParallelConfig config{.tp = 8, .pp = 4, .dp = 2, .schedule = ScheduleKind::kZbH1};
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  WaitsCache cache;
  const Seconds first = cache.find(scenario, config, costs);
  EXPECT_EQ(first, simulated_wait(scenario, config, costs));
  config.zero_stage = 1;
  EXPECT_EQ(cache.find(scenario, config, costs), first);
  config.recompute = Recompute::kFull;
  EXPECT_EQ(cache.find(scenario, config, costs), simulated_wait(scenario, config, costs));
  EXPECT_NE(cache.find(scenario, config, costs), first);
}

}  // namespace
}  // namespace ptdp
