#include "planner/memory_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cost_model/analytic/offload.h"
#include "cost_model/analytic/pipeline.h"
#include "cost_model/analytic/rank_parameters.h"
#include "cost_model/analytic/recomputed_layers.h"
#include "cost_model/analytic/stage.h"
#include "cost_model/spec/layer_kinds.h"
#include "cost_model/spec/parameter_counts.h"

namespace ptdp {
namespace {

constexpr double kMostWalkedActions = 2e5;  // of a schedule whose memory is walked through
constexpr double kMostKeptActions = 2e6;    // of all of them: 32 MB
constexpr double kMemoryRounding = 1e-11;   // more than sums of some hundred terms are off

/// Microbatches whose activations a stage keeps at least, in chunks of it all together; no fewer of
/// more microbatches, or smaller ones. However chunks differ in layers, those that are kept are the
/// heaviest (stage_memory).
double least_in_flight(const Scenario& scenario, const ParallelConfig& config, int stage) {
  const bool is_counted = (config.schedule == ScheduleKind::kOneFOneB ||
                           config.schedule == ScheduleKind::kInterleaved) &&
                          scenario.stack.memory_model != MemoryModel::kPtdp;
  if (!is_counted) {
    return 1.0 / config.vpp;
  }
  const double microbatches =
      static_cast<double>(scenario.job.global_batch_size) / config.dp / config.micro_batch_size;
  constexpr double many = 1e9;
  return std::min(microbatches, chunks_in_flight(config.pp, config.vpp, stage, many) / config.vpp);
}

/// The stages between the first and the last one of which is the heaviest of those: of stages with
/// the same layers in the same chunks the first keeps most microbatches, for others all.
std::vector<int> unlike_stages(const TransformerConfig& model, const ParallelConfig& config,
                               const LayersOfStages& layers) {
  std::vector<int> stages;
  const int step = stage_step(model, config);
  if (config.schedule != ScheduleKind::kOneFOneB && config.schedule != ScheduleKind::kInterleaved) {
    for (int stage = step; stage < config.pp - 1; stage += step) {
      stages.push_back(stage);
    }
    return stages;
  }
  if (step > 1) {
    return stages;  // all have equal layers
  }
  const auto is_like = [&](int stage, int other) {
    for (int chunk = 0; chunk < config.vpp; ++chunk) {
      if (layers.of_virtual_stage(chunk * config.pp + stage) !=
          layers.of_virtual_stage(chunk * config.pp + other)) {
        return false;
      }
    }
    return true;
  };
  for (int stage = 1; stage < config.pp - 1; ++stage) {
    if (std::ranges::none_of(stages, [&](int other) { return is_like(stage, other); })) {
      stages.push_back(stage);
    }
  }
  return stages;
}

}  // namespace

MemoryVerdict MemoryLines::judge(const Scenario& scenario, const ParallelConfig& config,
                                 const StageMemories& memories, const LayerSplit& split,
                                 Bytes capacity) {
  const auto line_of = [&](int stage) {
    const MemoryBreakdown memory = memories.of_stage(config, split.layers, stage);
    const RankParameters optimizer =
        memories.held(config, split.layers, stage) * optimizer_bytes_on_gpu(scenario.stack, config);
    return Line{.fixed = (memory.total() - memory.optimizer).value(),
                .whole = optimizer.total(),
                .sharded = shard_of(optimizer, config) * config.dp};
  };
  const double most = capacity.value();
  const double share = 1.0 / config.dp;
  const bool is_sharded = config.zero_stage >= 1;
  margin_ = std::numeric_limits<double>::infinity();
  MemoryVerdict verdict;
  const auto fits = [&](const Line& line) {
    const double memory = line.fixed + (is_sharded ? line.sharded * share : line.whole);
    margin_ = std::min(margin_, std::abs(memory - most) / most);
    verdict.largest = std::max(verdict.largest, Bytes(memory));
    return memory <= most;
  };
  if (ends_.empty()) {
    ends_.push_back(line_of(0));
  }
  if (!fits(ends_.front())) {
    verdict.violation = Constraint::kMemoryFirstStage;
    return verdict;
  }
  if (ends_.size() == 1) {
    ends_.push_back(line_of(config.pp - 1));
  }
  if (!fits(ends_.back())) {
    verdict.violation = Constraint::kMemoryLastStage;
    return verdict;
  }
  if (!has_between_) {
    has_between_ = true;
    for (const int stage : split.unlike_stages) {
      between_.push_back(line_of(stage));
    }
  }
  for (const Line& line : between_) {
    if (!fits(line)) {
      verdict.violation = Constraint::kMemoryMiddleStage;
    }
  }
  return verdict;
}

MemoryFit::MemoryFit(const Scenario& scenario, Bytes capacity)
    : scenario_(scenario),
      capacity_(capacity),
      walks_orders_(scenario.stack.memory_model == MemoryModel::kPtdp),
      is_uniform_(has_one_kind(scenario.job.model)) {}

MemoryVerdict MemoryFit::judge(const ParallelConfig& config) {
  if (walks_orders_) {
    const std::vector<MemoryBreakdown> stages = memory_of_stages(config);
    MemoryVerdict verdict{.violation = find_memory_violation(stages, capacity_)};
    for (const MemoryBreakdown& stage : stages) {
      verdict.largest = std::max(verdict.largest, stage.total());
    }
    return verdict;
  }
  const Bytes first = stage_memory(scenario_, config, 0).total();
  const bool looks_at_both = grows_with_size(config);
  if (first > capacity_ && !looks_at_both) {
    return {first, Constraint::kMemoryFirstStage};
  }
  const Bytes last = stage_memory(scenario_, config, config.pp - 1).total();
  if (looks_at_both) {
    return {std::max(first, last), first > capacity_  ? std::optional(Constraint::kMemoryFirstStage)
                                   : last > capacity_ ? std::optional(Constraint::kMemoryLastStage)
                                                      : std::nullopt};
  }
  if (last > capacity_) {
    return {last, Constraint::kMemoryLastStage};
  }
  const Bytes largest = peak_memory(scenario_, config);
  return {largest,
          largest > capacity_ ? std::optional(Constraint::kMemoryMiddleStage) : std::nullopt};
}

MemoryVerdict MemoryFit::judge(const ParallelConfig& config, const StageMemories& memories,
                               MemoryLines& lines) {
  const MemoryVerdict verdict =
      lines.judge(scenario_, config, memories, split_of(config), capacity_);
  return lines.margin() < kMemoryRounding ? judge(config) : verdict;
}

const LayerSplit& MemoryFit::split_of(const ParallelConfig& config) {
  if (!split_ || split_config_.pp != config.pp || split_config_.vpp != config.vpp ||
      split_config_.schedule != config.schedule ||
      split_config_.layers_per_stage != config.layers_per_stage) {
    split_config_ = config;
    LayersOfStages layers(scenario_.job.model, config);
    std::vector<int> unlike = unlike_stages(scenario_.job.model, config, layers);
    split_.emplace(LayerSplit{std::move(layers), std::move(unlike)});
  }
  return *split_;
}

Bytes MemoryFit::least_of_any_split(const ParallelConfig& config) const {
  const TransformerConfig& model = scenario_.job.model;
  const double layers = std::ceil(1.0 * model.num_layers / config.pp);
  Bytes least(std::numeric_limits<double>::infinity());
  for_each_kind(layers_of_model(model), [&](std::size_t kind, double /*count*/) {
    least = std::min(least, state_of_layer(config, kLayerKinds[kind]) +
                                kept_by_layer(scenario_, config, kLayerKinds[kind]) /
                                    (config.vpp * layers_at_once(config)));
  });
  return layers * least + reserved_memory(scenario_.cluster.gpu, scenario_.stack);
}

bool MemoryFit::fits_no_split(const ParallelConfig& config, Bytes capacity) const {
  const Bytes room = (capacity - reserved_memory(scenario_.cluster.gpu, scenario_.stack)) *
                     (1.0 + kMemoryRounding);
  bool fits = true;
  for_each_kind(layers_of_model(scenario_.job.model), [&](std::size_t kind, double count) {
    const Bytes state = state_of_layer(config, kLayerKinds[kind]);
    const Bytes kept = kept_by_layer(scenario_, config, kLayerKinds[kind]) / layers_at_once(config);
    double held = 0.0;
    for (int stage = 0; stage < config.pp && held < count; ++stage) {
      held += std::floor(room / (state + kept * least_in_flight(scenario_, config, stage)));
    }
    fits = fits && held >= count;
  });
  return !fits;
}

Bytes MemoryFit::state_of_layer(const ParallelConfig& config, LayerKind kind) const {
  const LayerWeights weights = layer_matrices(scenario_.job.model, kind.has_experts);
  const RankParameters held = {.dense = weights.split / config.tp,
                               .experts = weights.experts / config.ep / config.etp,
                               .matrices = weights.split / config.tp};
  return model_state(scenario_.stack, config, held, scenario_.cluster.gpu);
}

/// By orders that several configurations share. Those that depend on durations, and long ones, are
/// not made here, where every candidate comes by.
std::vector<MemoryBreakdown> MemoryFit::memory_of_stages(const ParallelConfig& config) {
  const double actions = num_actions_with_messages(scenario_, config);
  if (config.pp == 1 || config.schedule == ScheduleKind::kZbAuto || actions > kMostWalkedActions) {
    std::vector<MemoryBreakdown> stages;
    stages.reserve(static_cast<std::size_t>(config.pp));
    for (int stage = 0; stage < config.pp; ++stage) {
      stages.push_back(stage_memory(scenario_, config, stage));
    }
    return stages;
  }
  const OrdersKey key = {config.schedule, config.pp, config.vpp,
                         num_microbatches(scenario_.job.global_batch_size, config)};
  auto found = orders_.find(key);
  if (found == orders_.end()) {
    num_kept_actions_ += actions;
    if (num_kept_actions_ > kMostKeptActions) {
      orders_.clear();
      num_kept_actions_ = actions;
    }
    found = orders_.emplace(key, schedule_with_messages(scenario_, config)).first;
  }
  return memory_by_stage(scenario_, config, found->second);
}

bool is_linear_in_replicas(const Scenario& scenario, const ParallelConfig& config) {
  return scenario.stack.memory_model != MemoryModel::kPtdp &&
         (config.zero_stage <= 1 || config.pp > 1);
}

std::int64_t microbatches_kept(const Scenario& scenario, const ParallelConfig& config) {
  const std::int64_t microbatches = num_microbatches(scenario.job.global_batch_size, config);
  switch (config.schedule) {
    case ScheduleKind::kOneFOneB:  // as many as there are stages are in flight (pipeline.h)
      return std::min<std::int64_t>(microbatches, config.pp);
    case ScheduleKind::kInterleaved:  // of one chunk 2·pp
      return std::min<std::int64_t>(microbatches, std::int64_t{2} * config.pp);
    default:
      return microbatches;
  }
}

}  // namespace ptdp
