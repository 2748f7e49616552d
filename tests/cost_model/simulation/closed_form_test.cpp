// The closed form of an iteration's time against the simulator.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cost_model/analytic/iteration.h"
#include "cost_model/schedule/generators.h"
#include "cost_model/simulation/simulator.h"
#include "tests/cost_model/scenarios.h"

namespace ptdp {
namespace {

/// A pipeline of one layer per virtual stage, each 1 s forward and 3 s backward.
struct Pipeline {
  int pp = 1;
  int vpp = 1;
  int num_microbatches = 1;
  double heavier_by = 0.0;  ///< Of the last rank's layers, what its logits take on top.
};

/// What the logits take, forward and backward.
Seconds logits_time(const Pipeline& pipeline) {
  return Seconds(4.0 * pipeline.vpp * pipeline.heavier_by);
}

/// m·slowest + (p − 1)/v·mean, as iteration_cost has it.
Seconds closed_form_time(const Pipeline& pipeline) {
  Scenario scenario = selene_2021("1.7B", pipeline.num_microbatches);
  scenario.job.model.num_layers = pipeline.pp * pipeline.vpp;
  scenario.stack.microbatch_overhead = Seconds(0.0);
  const MicrobatchCosts costs{.layers = {LayerCosts{.forward = {.matmul = Seconds(1.0)},
                                                    .backward = {.matmul = Seconds(3.0)}}},
                              .logits = {.matmul = logits_time(pipeline)}};
  const ParallelConfig config{
      .pp = pipeline.pp,
      .vpp = pipeline.vpp,
      .schedule = pipeline.vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB};
  const CostBreakdown cost = iteration_cost(scenario, config, costs);
  return cost.matmul + cost.embedding_and_logits + cost.bubble;
}

Seconds simulated_time(const Pipeline& pipeline) {
  const ScheduleShape shape{
      .pp = pipeline.pp, .vpp = pipeline.vpp, .num_microbatches = pipeline.num_microbatches};
  const Schedule schedule = pipeline.vpp > 1 ? interleaved(shape) : one_f_one_b(shape);
  std::vector<StageDurations> durations(static_cast<std::size_t>(num_stages(schedule)),
                                        stage_durations(Seconds(1.0), Seconds(1.5), Seconds(1.5)));
  const Seconds third = logits_time(pipeline) / 3.0;  // one product forward, two backward
  durations.back() =
      stage_durations(Seconds(1.0) + third, Seconds(1.5) + third, Seconds(1.5) + third);
  return simulate(schedule, durations).makespan();
}

// 0.5 % on average and 5 % at worst are what a closed form may be off; 4.2 % is what it is, for two
// ranks with two microbatches and a last stage 30 % heavier.
TEST(ClosedForm, OfThePipelineIsThatOfTheSimulator) {
  for (const int vpp : {1, 2, 3, 4}) {
    double worst = 0.0;
    double sum = 0.0;
    int count = 0;
    for (const int pp : {2, 3, 4, 6, 8, 16, 32, 64}) {
      for (const int rounds : {1, 2, 3, 4, 8, 16}) {
        for (const double heavier_by : {0.0, 0.05, 0.1, 0.2, 0.3}) {
          const Pipeline pipeline{pp, vpp, rounds * pp, heavier_by};
          const double error =
              std::abs(closed_form_time(pipeline) / simulated_time(pipeline) - 1.0);
          if (heavier_by == 0.0) {
            EXPECT_LT(error, 1e-12) << "p " << pp << " v " << vpp << " rounds " << rounds;
          }
          worst = std::max(worst, error);
          sum += error;
          ++count;
        }
      }
    }
    EXPECT_LT(sum / count, 0.005) << "v " << vpp;
    EXPECT_LT(worst, 0.042) << "v " << vpp;
    EXPECT_GT(worst, 0.0);  // the closed form is no simulation
  }
}

}  // namespace
}  // namespace ptdp
