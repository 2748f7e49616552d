#include "planner/enumerate.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "cost_model/analytic/partition.h"
#include "cost_model/analytic/rank_parameters.h"
#include "cost_model/contains.h"
#include "planner/constraint.h"

namespace ptdp {
namespace {

constexpr std::int64_t kFewestTokens = 2048;  // of a sequence that GPUs share, unless asked for

/// The divisors of `number` in `set`, and the numbers of the set that were typed one by one: who
/// types a number wants to hear about it. Ascending.
std::vector<std::int64_t> divisors_in(std::int64_t number, const IntegerRanges& set) {
  std::vector<std::int64_t> result = set.numbers();
  for (const std::int64_t divisor : divisors(number)) {
    if (set.contains(divisor)) {
      result.push_back(divisor);
    }
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

/// With a pipeline stages 2 and 3 are no other than 1 (sharding.h).
std::vector<int> zero_stages(const Scenario& scenario, const Pins& pins, int pp) {
  const std::vector<int>& can_run = scenario.stack.can_run.zero_stages;
  std::vector<int> stages;
  if (pins.zero_stage.is_any()) {
    std::copy_if(can_run.begin(), can_run.end(), std::back_inserter(stages),
                 [&](int stage) { return stage <= 1 || pp == 1 || !contains(can_run, 1); });
    return stages;
  }
  for (int stage = 0; stage <= kHighestZeroStage; ++stage) {
    if (pins.zero_stage.contains(stage) &&
        (stage <= 1 || pp == 1 || stages.empty() || stages.back() == 0)) {
      stages.push_back(stage);
    }
  }
  return stages;
}

std::vector<bool> sequence_parallel_choices(const Scenario& scenario, const Pins& pins, int tp) {
  if (pins.sequence_parallel.has_value()) {
    return {*pins.sequence_parallel};
  }
  if (tp > 1 && scenario.stack.can_run.sequence_parallel) {
    return {false, true};
  }
  return {false};
}

/// The schedules that a search looks at, in the order of their kinds.
std::vector<ScheduleKind> schedules_of(const Scenario& scenario, const Pins& pins) {
  std::vector<ScheduleKind> schedules;
  for (const NamedValue<ScheduleKind>& schedule : kScheduleNames) {
    const bool is_usual = schedule.value == ScheduleKind::kOneFOneB ||
                          schedule.value == ScheduleKind::kInterleaved ||
                          contains(scenario.stack.can_run.schedules, schedule.value);
    if (has_stale_weights(schedule.value) && !pins.allow_stale_weights) {
      continue;
    }
    if (pins.schedules.empty() ? is_usual : contains(pins.schedules, schedule.value)) {
      schedules.push_back(schedule.value);
    }
  }
  return schedules;
}

/// Some split of layers that so many stages do not divide, where the stack runs any: the search
/// puts the balanced one in its place once it knows what layers cost. Else none: all equal.
std::vector<int> uneven_layers(const Scenario& scenario, int num_stages) {
  const int num_layers = scenario.job.model.num_layers;
  // The embedding and the logits may be stages of their own; all others hold a layer.
  const bool is_uneven = scenario.stack.can_run.uneven_layers && num_layers % num_stages != 0 &&
                         num_layers >= num_stages - 2;
  return is_uneven ? even_split(num_layers, num_stages) : std::vector<int>();
}

/// The sizes of groups of at most `gpus` that share a sequence, ascending.
std::vector<std::int64_t> context_sizes(const Scenario& scenario, std::int64_t gpus,
                                        const Pins& pins) {
  const std::int64_t tokens = scenario.job.model.seq_length;
  if (!pins.cp.is_any()) {
    return pins.cp.values(std::min(gpus, tokens));
  }
  std::vector<std::int64_t> sizes = {1};
  if (scenario.stack.can_run.context_parallel) {
    for (std::int64_t cp = 2; cp <= std::min(gpus, tokens / kFewestTokens); cp *= 2) {
      if (tokens % cp == 0) {
        sizes.push_back(cp);
      }
    }
  }
  return sizes;
}

/// How a model's experts may be split: (ep, etp).
std::vector<std::pair<int, int>> expert_splits(const Scenario& scenario, const Pins& pins, int tp) {
  const int num_experts = scenario.job.model.num_experts;
  if (num_experts == 0 && pins.ep.is_any() && pins.etp.is_any()) {
    return {{1, 1}};
  }
  std::vector<std::int64_t> widths = {1};
  if (!pins.etp.is_any()) {
    widths = pins.etp.values(std::max(scenario.job.model.moe_ffn_hidden_size, 1));
  } else if (tp > 1 && scenario.stack.can_run.expert_parallel) {
    widths.push_back(tp);
  }
  const bool is_split = scenario.stack.can_run.expert_parallel || !pins.ep.is_any();
  std::vector<std::pair<int, int>> result;
  for (const std::int64_t ep : divisors_in(is_split ? std::max(num_experts, 1) : 1, pins.ep)) {
    for (const std::int64_t etp : widths) {
      result.emplace_back(static_cast<int>(ep), static_cast<int>(etp));
    }
  }
  if (result.empty()) {  // for the search to say why
    result.emplace_back(pins.ep.smallest(), pins.etp.smallest());
  }
  return result;
}

/// The memory that a searched schedule may be given: ZB-H1's and ZB-H2's.
std::vector<std::optional<int>> memory_limits(const ParallelConfig& config) {
  if (config.schedule != ScheduleKind::kZbAuto) {
    return {std::nullopt};
  }
  return {config.pp, 2 * config.pp - 1};
}

/// The virtual stages with the schedules that have so many, as far as the pins allow both.
std::vector<ParallelConfig> interleavings(const Scenario& scenario, const Pins& pins,
                                          const ParallelConfig& split) {
  std::vector<ParallelConfig> result;
  const std::vector<ScheduleKind> schedules = schedules_of(scenario, pins);
  const int layers_per_stage = scenario.job.model.num_layers / split.pp;
  for (const std::int64_t vpp : pins.vpp.values(split.pp == 1 ? 1 : layers_per_stage)) {
    ParallelConfig config = split;
    config.vpp = static_cast<int>(vpp);
    config.layers_per_stage = uneven_layers(scenario, config.pp * config.vpp);
    for (const ScheduleKind schedule : schedules) {
      const bool is_usual =
          schedule == ScheduleKind::kOneFOneB || schedule == ScheduleKind::kInterleaved;
      if (has_chunks(schedule, vpp) && (split.pp > 1 || is_usual)) {
        config.schedule = schedule;
        for (const std::optional<int> limit : memory_limits(config)) {
          config.memory_limit = limit;
          result.push_back(config);
        }
      }
    }
  }
  return result;
}

}  // namespace

std::vector<int> enumerate_tp(const Scenario& scenario, std::int64_t gpus, const Pins& pins) {
  std::vector<int> result;
  const std::int64_t heads = scenario.job.model.num_attention_heads;
  for (const std::int64_t tp : pins.tp.values(std::min(gpus, heads))) {
    // One GPU has no sequence to split: asked for sequence parallelism, it is no candidate.
    if (tp <= gpus && (tp > 1 || !pins.sequence_parallel.value_or(false))) {
      result.push_back(static_cast<int>(tp));
    }
  }
  return result;
}

std::vector<ParallelConfig> enumerate_splits(const Scenario& scenario, std::int64_t gpus,
                                             const Pins& pins, int tp) {
  std::vector<ParallelConfig> result;
  const std::vector<std::int64_t> cps = context_sizes(scenario, gpus / tp, pins);
  const std::int64_t layers = scenario.job.model.num_layers;
  for (const std::int64_t pp : pins.pp.values(std::min(gpus / tp, layers))) {
    const int stages = static_cast<int>(pp);
    for (const std::int64_t cp : cps) {
      if (tp * pp * cp <= gpus) {
        result.push_back({.tp = tp,
                          .pp = stages,
                          .cp = static_cast<int>(cp),
                          .layers_per_stage = uneven_layers(scenario, stages)});
      }
    }
  }
  return result;
}

std::vector<ParallelConfig> enumerate_variants(const Scenario& scenario, const Pins& pins,
                                               const ParallelConfig& split) {
  const std::vector<Recompute>& recomputes =
      pins.recompute.empty() ? scenario.stack.can_run.recompute : pins.recompute;
  const std::vector<std::pair<int, int>> experts = expert_splits(scenario, pins, split.tp);
  std::vector<ParallelConfig> result;
  for (const ParallelConfig& interleaving : interleavings(scenario, pins, split)) {
    for (const Recompute recompute : recomputes) {
      for (const bool is_sequence_parallel : sequence_parallel_choices(scenario, pins, split.tp)) {
        for (const auto& [ep, etp] : experts) {
          ParallelConfig config = interleaving;
          config.recompute = recompute;
          config.sequence_parallel = is_sequence_parallel;
          config.ep = ep;
          config.etp = etp;
          for (const int zero_stage : zero_stages(scenario, pins, split.pp)) {
            config.zero_stage = zero_stage;
            result.push_back(config);
          }
        }
      }
    }
  }
  return result;
}

std::vector<Replicas> enumerate_replicas(const Scenario& scenario, std::int64_t gpus,
                                         const Pins& pins) {
  const std::int64_t batch = scenario.job.global_batch_size;
  std::vector<Replicas> result;
  for (const std::int64_t dp : divisors_in(batch, pins.dp)) {
    if (dp > gpus) {
      break;
    }
    Replicas& replicas = result.emplace_back(Replicas{.dp = static_cast<int>(dp)});
    const std::int64_t batch_per_replica = std::max<std::int64_t>(batch / dp, 1);
    for (const std::int64_t size : divisors_in(batch_per_replica, pins.micro_batch_size)) {
      replicas.micro_batch_sizes.push_back(static_cast<int>(size));
    }
  }
  return result;
}

bool is_candidate(const Scenario& scenario, const ParallelConfig& config, std::int64_t gpus,
                  const Pins& pins) {
  const std::vector<int>& stages = scenario.stack.can_run.zero_stages;
  const bool can_leave_whole = pins.zero_stage.is_any() && contains(stages, 0);
  return config.world_size() <= gpus &&
         (config.zero_stage == 0 || !can_leave_whole || has_replicas(scenario.job.model, config));
}

}  // namespace ptdp
