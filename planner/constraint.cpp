#include "planner/constraint.h"

#include <algorithm>
#include <numeric>

#include "cost_model/analytic/memory.h"

namespace ptdp {
namespace {

template <class Value>
bool contains(const std::vector<Value>& values, Value value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool is_run_by(const StackCapabilities& can_run, const ParallelConfig& config) {
  return (config.pp == 1 || contains(can_run.schedules, config.schedule)) &&
         contains(can_run.recompute, config.recompute) &&
         contains(can_run.zero_stages, config.zero_stage) &&
         (can_run.sequence_parallel || !config.sequence_parallel) &&
         (can_run.context_parallel || config.cp == 1) &&
         (can_run.expert_parallel || config.ep == 1);
}

/// Whether layers_per_stage has a number for each virtual stage and holds all layers.
bool is_spread(const ParallelConfig& config, std::int64_t num_layers) {
  const std::vector<int>& layers = config.layers_per_stage;
  return static_cast<std::int64_t>(layers.size()) == std::int64_t{config.pp} * config.vpp &&
         std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) == num_layers;
}

}  // namespace

const ConstraintText& text_of(Constraint constraint) {
  return *std::find_if(
      kConstraints.begin(), kConstraints.end(),
      [constraint](const ConstraintText& entry) { return entry.constraint == constraint; });
}

std::optional<Constraint> find_split_violation(const Scenario& scenario,
                                               const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  if (model.num_attention_heads % config.tp != 0) {
    return Constraint::kHeadsByTp;
  }
  if (model.ffn_hidden_size % config.tp != 0) {
    return Constraint::kFfnByTp;
  }
  if (model.num_query_groups % config.tp != 0) {
    return Constraint::kGroupsByTp;
  }
  if (config.layers_per_stage.empty() && model.num_layers % config.pp != 0) {
    return Constraint::kLayersByPp;
  }
  return std::nullopt;
}

std::optional<Constraint> find_spread_violation(const Scenario& scenario,
                                                const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  if (config.zero_stage > kCoveredZeroStage) {
    return Constraint::kNotCovered;
  }
  if (config.sequence_parallel && model.seq_length % config.tp != 0) {
    return Constraint::kSequenceByTp;
  }
  if (!config.layers_per_stage.empty()) {
    if (!is_spread(config, model.num_layers)) {
      return Constraint::kLayersPerStage;
    }
  } else if (model.num_layers / config.pp % config.vpp != 0) {
    return Constraint::kLayersByPpVpp;
  }
  return std::nullopt;
}

std::optional<Constraint> find_variant_violation(const Scenario& scenario,
                                                 const ParallelConfig& config) {
  const StackCapabilities& can_run = scenario.stack.can_run;
  if (!is_run_by(can_run, config)) {
    return Constraint::kNotRunByStack;
  }
  if (const auto violation = find_spread_violation(scenario, config)) {
    return violation;
  }
  if (config.schedule == ScheduleKind::kInterleaved && config.pp < can_run.interleaved_min_stages) {
    return Constraint::kInterleavedMinStages;
  }
  return std::nullopt;
}

std::optional<Constraint> find_batch_violation(const Scenario& scenario,
                                               const ParallelConfig& config) {
  const std::int64_t batch = scenario.job.global_batch_size;
  if (config.dp > batch) {
    return Constraint::kDpBeyondBatch;
  }
  const std::int64_t batch_per_replica = batch / config.dp;
  if (batch % config.dp != 0 || batch_per_replica % config.micro_batch_size != 0) {
    return Constraint::kBatchByDp;
  }
  if (config.schedule == ScheduleKind::kInterleaved &&
      batch_per_replica / config.micro_batch_size % config.pp != 0) {
    return Constraint::kMicrobatchesByPp;
  }
  return std::nullopt;
}

std::optional<Constraint> find_divisibility_violation(const Scenario& scenario,
                                                      const ParallelConfig& config) {
  if (const auto violation = find_split_violation(scenario, config)) {
    return violation;
  }
  if (const auto violation = find_spread_violation(scenario, config)) {
    return violation;
  }
  return find_batch_violation(scenario, config);
}

std::optional<Constraint> find_shape_violation(const Scenario& scenario,
                                               const ParallelConfig& config) {
  if (const auto violation = find_split_violation(scenario, config)) {
    return violation;
  }
  if (const auto violation = find_variant_violation(scenario, config)) {
    return violation;
  }
  return find_batch_violation(scenario, config);
}

Bytes usable_memory(const GpuSpec& gpu, double headroom) {
  return gpu.memory * (1.0 - headroom);
}

std::optional<Constraint> find_violation(const Scenario& scenario, const ParallelConfig& config,
                                         Bytes capacity) {
  if (const auto violation = find_shape_violation(scenario, config)) {
    return violation;
  }
  if (stage_memory(scenario, config, 0).total() > capacity) {
    return Constraint::kMemoryFirstStage;
  }
  if (stage_memory(scenario, config, config.pp - 1).total() > capacity) {
    return Constraint::kMemoryLastStage;
  }
  if (peak_memory(scenario, config) > capacity) {
    return Constraint::kMemoryMiddleStage;
  }
  return std::nullopt;
}

}  // namespace ptdp
