// Works out the memory of stages as lines in microbatch size and 1/dp, and judges by them.
#include "planner/search/family_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/iteration/offload.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/pipeline_rank/rank_parameters.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostKeptStages = 500'000;  // virtual stages of all splits: some 30 MB

/// Returns stages between the first and the last, one of which is the heaviest between them. Under
/// a schedule that holds fillings of the pipeline, the first of several stages with equal layers
/// keeps the most microbatches and stands for all. Under other schedules all stages may be it.
std::vector<int> unlike_stages(const TransformerConfig& model, const ParallelConfig& config,
                               const LayersOfRanks& layers) {
  std::vector<int> stages;
  const int step = rank_step(model, config);
  if (traits_of(config.schedule).pipelines_held == 0) {
    for (int stage = step; stage < config.pp - 1; stage += step) {
      stages.push_back(stage);
    }
    return stages;
  }
  if (step > 1) {
    return stages;  // all stages have equal layers
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

void FamilyMemory::begin_family(const ParallelConfig& config) {
  const std::size_t stages =
      static_cast<std::size_t>(config.pp) * static_cast<std::size_t>(config.vpp);
  if (config.pp != family_.pp || config.vpp != family_.vpp || config.schedule != family_.schedule ||
      layers_of_configs_.size() * stages > kMostKeptStages) {
    layers_of_configs_.clear();
  }
  for (LayersOfConfig& layers_of_config : layers_of_configs_) {
    layers_of_config.lines.clear();
  }
  memories_.reset();
  family_ = config;
  const int pipelines = traits_of(config.schedule).pipelines_held;
  most_kept_ = pipelines > 0 ? std::int64_t{pipelines} * config.pp
                             : std::numeric_limits<std::int64_t>::max();
}

std::size_t FamilyMemory::number_of(const std::vector<int>& layers_per_stage) {
  auto found =
      std::ranges::find(layers_of_configs_, layers_per_stage, &LayersOfConfig::layers_per_stage);
  if (found == layers_of_configs_.end()) {
    found = layers_of_configs_.insert(found, LayersOfConfig{.layers_per_stage = layers_per_stage});
  }
  return static_cast<std::size_t>(found - layers_of_configs_.begin());
}

MemoryVerdict FamilyMemory::judge(const ParallelConfig& config, std::size_t layers_of_config,
                                  bool has_replicas) {
  if (fit_.walks_orders()) {
    return fit_.judge(config);
  }
  LayersOfConfig& own = layers_of_configs_[layers_of_config];
  Lines& lines = lines_of(config, own, has_replicas);
  const double most = fit_.capacity().value();
  const double share = 1.0 / config.dp;
  const bool is_sharded = config.zero_stage >= 1;
  double margin = std::numeric_limits<double>::infinity();
  double largest = 0.0;
  // This runs for each candidate: inlined, a search runs 4 % fewer instructions.
  const auto fits = [&](const Line& line) __attribute__((always_inline)) {
    const double memory = line.fixed + line.per_sequence * config.micro_batch_size +
                          (is_sharded ? line.sharded * share : line.whole);
    margin = std::min(margin, std::abs(memory - most));
    largest = std::max(largest, memory);
    return memory <= most;
  };
  const std::optional<Constraint> violation = find_violation(config, own, lines, fits);
  if (margin < kMemoryRounding * most) {
    return fit_.judge(config);
  }
  return {Bytes(largest), violation};
}

template <class Fits>
std::optional<Constraint> FamilyMemory::find_violation(const ParallelConfig& config,
                                                       LayersOfConfig& layers_of_config,
                                                       Lines& lines, const Fits& fits) {
  if (lines.ends.empty()) {
    lines.ends.reserve(2);
    lines.ends.push_back(line_of(config, layers_of_config, 0));
  }
  if (!fits(lines.ends.front())) {
    return Constraint::kMemoryFirstStage;
  }
  if (lines.ends.size() == 1) {
    lines.ends.push_back(line_of(config, layers_of_config, config.pp - 1));
  }
  if (!fits(lines.ends.back())) {
    return Constraint::kMemoryLastStage;
  }
  if (!lines.has_between) {
    lines.has_between = true;
    for (const int stage : layers_of_config.unlike_stages) {
      lines.between.push_back(line_of(config, layers_of_config, stage));
    }
  }
  bool all_fit = true;
  for (const Line& line : lines.between) {
    all_fit = fits(line) && all_fit;  // every stage is looked at: the largest is wanted
  }
  return all_fit ? std::nullopt : std::optional(Constraint::kMemoryMiddleStage);
}

FamilyMemory::Lines& FamilyMemory::lines_of(const ParallelConfig& config,
                                            LayersOfConfig& layers_of_config,
                                            bool has_replicas) const {
  const std::int64_t kept =
      std::min(most_kept_, num_microbatches(scenario_.job.global_batch_size, config));
  const int sharding = config.zero_stage >= 2 ? config.zero_stage : 0;
  // Keys of relative positions are kept once for all sequences of a microbatch.
  const int size = has_relative_positions(scenario_.job.model) ? config.micro_batch_size : 0;
  for (Lines& lines : layers_of_config.lines) {
    if (lines.microbatches_kept == kept && lines.has_replicas == has_replicas &&
        lines.sharding == sharding && lines.size == size) {
      return lines;
    }
  }
  return layers_of_config.lines.emplace_back(Lines{
      .microbatches_kept = kept, .has_replicas = has_replicas, .sharding = sharding, .size = size});
}

FamilyMemory::Line FamilyMemory::line_of(const ParallelConfig& config,
                                         LayersOfConfig& layers_of_config, int stage) {
  if (!memories_ || size_ != config.micro_batch_size) {
    memories_.emplace(PlannedJob(scenario_, config));
    size_ = config.micro_batch_size;
  }
  if (!layers_of_config.layers) {
    layers_of_config.layers.emplace(scenario_.job.model, config);
    layers_of_config.unlike_stages =
        unlike_stages(scenario_.job.model, config, *layers_of_config.layers);
  }
  const MemoryBreakdown memory = memories_->of_rank(config, *layers_of_config.layers, stage);
  const Bytes proportional = memories_->proportional_to_size(memory);
  const RankParameters held = memories_->held(config, *layers_of_config.layers, stage);
  const RankParameters gradients =
      memories_->gradients(config, *layers_of_config.layers, stage, held).sharded;
  const Bytes shards = (shards_weights(config) ? memory.weights : Bytes(0.0)) +
                       gradient_memory(scenario_.stack, config, {.sharded = gradients});
  const RankParameters optimizer = held * optimizer_bytes_on_gpu(scenario_.stack, config);
  return {.fixed = (memory.total() - memory.optimizer - proportional - shards).value(),
          .per_sequence = proportional.value() / config.micro_batch_size,
          .whole = optimizer.total(),
          .sharded = (shards.value() + shard_of(optimizer, config)) * config.dp};
}

}  // namespace ptdp
