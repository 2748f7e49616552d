// Pipelines whose passes take what a test says, so that their steps can be worked out by hand.
#pragma once

#include "cost_model/pipeline_rank/rank_costs.h"
#include "tests/support/scenarios.h"

namespace ptdp {

/// Returns a configuration with the chunks per rank that the schedule takes: two in a V, two in a
/// loop.
inline ParallelConfig pipeline(ScheduleKind schedule, int pp) {
  const bool has_chunks = traits_of(schedule).placement == StagePlacement::kV ||
                          schedule == ScheduleKind::kInterleaved ||
                          schedule == ScheduleKind::kLoopedBfs;
  return {.pp = pp, .vpp = has_chunks ? 2 : 1, .schedule = schedule};
}

/// Returns a scenario whose model has one layer per virtual stage.
inline Scenario scenario_of(const ParallelConfig& config, int num_microbatches) {
  Scenario scenario = selene_2021("1.7B", num_microbatches);
  scenario.job.model.num_layers = config.pp * config.vpp;
  scenario.stack.microbatch_overhead = Seconds(0.0);
  return scenario;
}

/// Returns costs of layers with these durations [s], and of logits that take `logits` in each pass.
inline MicrobatchCosts costs_of(double forward, double input_gradient, double weight_gradient,
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

}  // namespace ptdp
