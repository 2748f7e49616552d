// Plans of which reports are made.
#pragma once

#include <vector>

#include "planner/plan/plan.h"
#include "tests/cost_model/plain_scenario.h"
#include "tests/support/scenarios.h"

namespace ptdp {

inline Plan plan_of(const Scenario& scenario, const ParallelConfig& config, double factor = 1.0) {
  return make_plan({scenario, config}, config.world_size(), 0.0, {.factor = factor});
}

/// Returns a plan of the 39B model on eight stages, a batch of 64 on 64 GPUs.
inline Plan plan_of_39b(ScheduleKind schedule = ScheduleKind::kOneFOneB, int vpp = 1) {
  return plan_of(selene_2021("39B", 64), {.tp = 8,
                                          .pp = 8,
                                          .vpp = vpp,
                                          .micro_batch_size = 1,
                                          .schedule = schedule,
                                          .recompute = Recompute::kFull});
}

/// Returns plans with all kinds of parallelism, recomputation, experts and offload.
inline std::vector<Plan> various_plans() {
  const Scenario experts = shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 64);
  const Scenario latent = shipped_scenario("deepseek-v3", "dgx-h100", "megatron-core-2025", 128);
  Scenario sharded = selene_2021("1.7B", 64);
  sharded.stack = find_stack("megascale-2024");
  return {
      plan_of_39b(),
      plan_of_39b(ScheduleKind::kInterleaved, 2),
      plan_of_39b(ScheduleKind::kZbH1),
      plan_of_39b(ScheduleKind::kPipeDream2Bw),
      plan_of(experts,
              {.pp = 4, .dp = 8, .ep = 8, .vpp = 2, .schedule = ScheduleKind::kInterleaved}, 1.25),
      plan_of(latent, {.tp = 2,
                       .pp = 4,
                       .dp = 8,
                       .cp = 1,
                       .ep = 8,
                       .micro_batch_size = 1,
                       .recompute = Recompute::kFull,
                       .sequence_parallel = true,
                       .layers_per_stage = {16, 15, 15, 15}}),
      plan_of(shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64),
              {.pp = 2, .dp = 2, .cp = 2, .micro_batch_size = 1}, 0.9),
      plan_of(sharded, {.tp = 2, .dp = 16, .micro_batch_size = 1, .zero_stage = 3}),
      plan_of(shipped_scenario("gpt2-124m", "hgx-h200", "ptdp-cuda", 8), {.micro_batch_size = 8})};
}

}  // namespace ptdp
