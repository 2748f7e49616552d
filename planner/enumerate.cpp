#include "planner/enumerate.h"

#include <algorithm>

namespace ptdp {
namespace {

/// The divisors of `number` in `set`, and the numbers of the set that were typed one by one: who
/// types a number wants to hear about it. Ascending.
std::vector<std::int64_t> divisors_in(std::int64_t number, const IntegerRanges& set) {
  std::vector<std::int64_t> result = set.numbers();
  for (std::int64_t low = 1; low * low <= number; ++low) {
    if (number % low == 0) {
      for (const std::int64_t divisor : {low, number / low}) {
        if (set.contains(divisor)) {
          result.push_back(divisor);
        }
      }
    }
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::vector<int> zero_stages(const Scenario& scenario, const Pins& pins, int dp) {
  if (!pins.zero_stage.is_any()) {
    std::vector<int> stages;
    for (int stage = 0; stage <= 3; ++stage) {
      if (pins.zero_stage.contains(stage)) {
        stages.push_back(stage);
      }
    }
    return stages;
  }
  // With one replica there is nothing to shard over: all stages are the same.
  return dp > 1 ? scenario.stack.can_run.zero_stages : std::vector<int>{0};
}

std::vector<bool> sequence_parallel_choices(const Scenario& scenario, const Pins& pins, int tp) {
  if (pins.sequence_parallel.has_value()) {
    return {*pins.sequence_parallel && tp > 1};
  }
  if (tp > 1 && scenario.stack.can_run.sequence_parallel) {
    return {false, true};
  }
  return {false};
}

/// The virtual stages with the schedule that each implies, as far as the pins allow both.
std::vector<ParallelConfig> interleavings(const Scenario& scenario, const Pins& pins,
                                          const ParallelConfig& layout) {
  std::vector<ParallelConfig> result;
  const int layers_per_stage = scenario.job.model.num_layers / layout.pp;
  for (const std::int64_t vpp : pins.vpp.values(layout.pp == 1 ? 1 : layers_per_stage)) {
    ParallelConfig config = layout;
    config.vpp = static_cast<int>(vpp);
    config.schedule = vpp == 1 ? Schedule::kOneFOneB : Schedule::kInterleaved;
    const bool is_wanted =
        pins.schedules.empty() || std::find(pins.schedules.begin(), pins.schedules.end(),
                                            config.schedule) != pins.schedules.end();
    if (is_wanted) {
      result.push_back(config);
    }
  }
  return result;
}

}  // namespace

std::vector<int> enumerate_tp(const Scenario& scenario, std::int64_t gpus, const Pins& pins) {
  std::vector<int> result;
  const std::int64_t heads = scenario.job.model.num_attention_heads;
  for (const std::int64_t tp : pins.tp.values(std::min(gpus, heads))) {
    if (tp <= gpus) {
      result.push_back(static_cast<int>(tp));
    }
  }
  return result;
}

std::vector<ParallelConfig> enumerate_layouts(const Scenario& scenario, std::int64_t gpus,
                                              const Pins& pins, int tp) {
  std::vector<ParallelConfig> result;
  const std::int64_t layers = scenario.job.model.num_layers;
  for (const std::int64_t pp : pins.pp.values(std::min(gpus / tp, layers))) {
    const std::int64_t replicas = gpus / (tp * pp);
    if (replicas == 0) {
      continue;
    }
    const std::vector<std::int64_t> degrees =
        pins.dp.is_any() ? std::vector<std::int64_t>{replicas}
                         : divisors_in(scenario.job.global_batch_size, pins.dp);
    for (const std::int64_t dp : degrees) {
      if (dp <= replicas) {
        result.push_back({.tp = tp, .pp = static_cast<int>(pp), .dp = static_cast<int>(dp)});
      }
    }
  }
  return result;
}

std::vector<ParallelConfig> enumerate_variants(const Scenario& scenario, const Pins& pins,
                                               const ParallelConfig& layout) {
  const std::vector<Recompute>& recomputes =
      pins.recompute.empty() ? scenario.stack.can_run.recompute : pins.recompute;
  std::vector<ParallelConfig> result;
  for (const ParallelConfig& interleaving : interleavings(scenario, pins, layout)) {
    for (const Recompute recompute : recomputes) {
      for (const bool is_sequence_parallel : sequence_parallel_choices(scenario, pins, layout.tp)) {
        for (const int zero_stage : zero_stages(scenario, pins, layout.dp)) {
          ParallelConfig config = interleaving;
          config.recompute = recompute;
          config.sequence_parallel = is_sequence_parallel;
          config.zero_stage = zero_stage;
          result.push_back(config);
        }
      }
    }
  }
  return result;
}

std::vector<int> enumerate_micro_batch_sizes(std::int64_t batch_per_replica, const Pins& pins) {
  std::vector<int> sizes;
  for (const std::int64_t size : divisors_in(batch_per_replica, pins.micro_batch_size)) {
    sizes.push_back(static_cast<int>(size));
  }
  return sizes;
}

}  // namespace ptdp
