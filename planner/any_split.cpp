#include "planner/any_split.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cost_model/analytic/kept_activations.h"
#include "cost_model/analytic/memory.h"
#include "cost_model/analytic/pipeline.h"
#include "cost_model/analytic/recomputed_layers.h"
#include "cost_model/analytic/stage.h"
#include "cost_model/spec/parameter_counts.h"
#include "planner/memory_fit.h"

namespace ptdp {
namespace {

/// Microbatches whose activations a stage keeps at least, in chunks of it all together; no fewer of
/// more microbatches, or smaller ones, and no more than an earlier stage keeps. However chunks
/// differ in layers, those that are kept are the heaviest (stage_memory).
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

}  // namespace

AnySplit::AnySplit(const Scenario& scenario, const ParallelConfig& config)
    : scenario_(scenario), counts_(layers_of_model(scenario.job.model)) {
  ParallelConfig of_one = config;
  of_one.micro_batch_size = 1;
  for_each_kind(counts_, [&](std::size_t kind, double /*count*/) {
    const LayerWeights weights = layer_matrices(scenario.job.model, kLayerKinds[kind].has_experts);
    layers_[kind] = {
        .matrices = {.dense = weights.split / config.tp,
                     .experts = weights.experts / config.ep / config.etp,
                     .matrices = weights.split / config.tp},
        .kept = kept_by_layer(scenario, of_one, kLayerKinds[kind]) / layers_at_once(config)};
  });
}

Bytes AnySplit::least_memory(const ParallelConfig& config) const {
  const double layers = std::ceil(1.0 * scenario_.job.model.num_layers / config.pp);
  Bytes least(std::numeric_limits<double>::infinity());
  for_each_kind(counts_, [&](std::size_t kind, double /*count*/) {
    least = std::min(least, state_of(layers_[kind], config) +
                                config.micro_batch_size * layers_[kind].kept / config.vpp);
  });
  return layers * least + reserved_memory(scenario_.cluster.gpu, scenario_.stack);
}

bool AnySplit::fits_none(const ParallelConfig& config, Bytes capacity) const {
  const Bytes room = (capacity - reserved_memory(scenario_.cluster.gpu, scenario_.stack)) *
                     (1.0 + kMemoryRounding);
  bool fits = true;
  for_each_kind(counts_, [&](std::size_t kind, double count) {
    const Bytes state = state_of(layers_[kind], config);
    const Bytes kept = config.micro_batch_size * layers_[kind].kept;
    const auto held_by = [&](int stage) {
      return std::floor(room / (state + kept * least_in_flight(scenario_, config, stage)));
    };
    // Mostly the stages at the ends decide: the first holds fewest, the last most.
    if (!fits || config.pp * held_by(0) >= count) {
      return;
    }
    double held = 0.0;
    if (config.pp * held_by(config.pp - 1) >= count) {
      for (int stage = 0; stage < config.pp && held < count; ++stage) {
        held += held_by(stage);
      }
    }
    fits = held >= count;
  });
  return !fits;
}

Bytes AnySplit::state_of(const LayerLoad& layer, const ParallelConfig& config) const {
  return model_state(scenario_.stack, config, layer.matrices, scenario_.cluster.gpu);
}

}  // namespace ptdp
