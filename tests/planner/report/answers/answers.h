// Answers of which pages are made: small ones, with names that a page must not act upon.
#pragma once

#include <string>
#include <vector>

#include "planner/answer/stacks.h"
#include "planner/answer/strategies.h"
#include "planner/logs/log_report.h"
#include "planner/partition_report/layer_plans.h"
#include "tests/planner/report/made_up_report.h"
#include "tests/planner/report/sections/plans.h"

namespace ptdp {

/// Returns stacks for the 18B model on 64 GPUs, of which the last has no plan.
inline StackComparison small_stacks() {
  std::vector<StackChoice> choices;
  for (const char* name : {"megatron-lm-2021", "megatron-lm-2022", "megatron-core-2024"}) {
    choices.push_back({name, shipped_scenario("18B", "selene-a100", name), ""});
  }
  choices.push_back({kHostileName, std::nullopt, "no such kernels"});
  return compare_stacks(selene_2021("18B"), choices, {.gpus = 64}, CalibrationSource::shipped());
}

/// Returns strategies for a model on 64 GPUs, of which ZeRO-3 has no plan: the batch is too small.
inline StrategyComparison small_strategies(Objective objective = Objective::kTime) {
  SearchOptions options{.gpus = 64};
  options.objective = objective;
  return compare_strategies(shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 512),
                            options);
}

/// Returns a log of 40 iterations: 8 s and 3 s to warm up, then 2 s, one of them 4 s. It is of
/// `plan` if there is one.
inline LogReport small_log(const std::optional<Plan>& plan) {
  TrainingLog log;
  constexpr int steps = 40;
  constexpr int paused = 30;
  for (int step = 1; step <= steps; ++step) {
    LogRecord record{.step = step};
    record.seconds = step == 1 ? 8.0 : step == 2 ? 3.0 : step == paused ? 4.0 : 2.0;
    record.loss = 10.0 / step;
    log.records.push_back(record);
  }
  log.memory = {.allocated = 3.0 * kGibi, .reserved = 4.0 * kGibi};
  log.timers = {{.name = "optimizer", .low = 0.25, .high = 0.5}};
  return report_log(log, kHostileName, plan);
}

/// Returns plans for a list of twelve layers with ends on eight GPUs.
inline LayerPlans small_layers() {
  const auto layer = [](const std::string& name, double seconds, int count) {
    return ListedLayer{.name = name,
                       .time = Seconds(seconds),
                       .count = count,
                       .forward = Seconds(seconds / 4.0),
                       .parameters = 1e9,
                       .activations = Bytes(kGibi),
                       .output = Bytes(16e6)};
  };
  LayerSearch search{.list = {.name = kHostileName,
                              .embedding = layer("patches", 0.004, 1),
                              .layers = {layer(kHostileName, 0.01, 10), layer("cross", 0.02, 2)},
                              .logits = layer("head", 0.016, 1)},
                     .cluster = find_cluster("dgx-h100"),
                     .gpus = 8,
                     .global_batch_size = 32};
  search.stack = with_bytes_of(find_stack("megatron-core-2025"), search.list);
  return plan_layers(search);
}

}  // namespace ptdp
