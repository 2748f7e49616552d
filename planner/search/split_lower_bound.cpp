// Bounds the memory of stages by what their layers alone take.
#include "planner/search/split_lower_bound.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/memory/memory.h"
#include "cost_model/memory/pipeline_formulas.h"
#include "cost_model/memory/rank_activations.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/pipeline_rank/recomputed_layers.h"
#include "planner/search/memory_fit.h"

namespace ptdp {
namespace {

/// Returns for each pipeline rank a lower bound of the microbatches whose activations it keeps, all
/// its chunks together, when a step has many microbatches. No rank keeps more than the one before.
/// However chunks differ in layers, the kept ones are the heaviest (rank_memory).
std::vector<double> least_in_flight(const PlannedJob& job) {
  const bool is_counted = traits_of(job.config().schedule).pipelines_held > 0 &&
                          job.stack().memory_model != MemoryModel::kPtdp;
  constexpr double many = 1e9;
  std::vector<double> in_flight;
  in_flight.reserve(static_cast<std::size_t>(job.config().pp));
  for (int stage = 0; stage < job.config().pp; ++stage) {
    const double chunks =
        is_counted ? chunks_in_flight(job.config().pp, job.config().vpp, stage, many) : 1.0;
    in_flight.push_back(chunks / job.config().vpp);
  }
  return in_flight;
}

}  // namespace

SplitLowerBound::SplitLowerBound(const PlannedJob& job)
    : scenario_(job.scenario()),
      counts_(layers_of_model(job.model())),
      in_flight_(least_in_flight(job)) {
  ParallelConfig of_one = job.config();
  of_one.micro_batch_size = 1;
  const Bytes shared = kept_of_positions(job.model(), of_one, of_one.recompute,
                                         activation_storage(job.model(), job.stack()));
  for_each_kind(counts_, [&](std::size_t kind, double /*count*/) {
    const LayerWeights weights = layer_matrices(job.model(), kLayerKinds[kind].has_experts);
    layers_[kind] = {.matrices = {.dense = weights.split / job.config().tp,
                                  .experts = weights.experts / job.config().ep / job.config().etp,
                                  .matrices = weights.split / job.config().tp},
                     .kept = (kept_by_layer(job.scenario(), of_one, kLayerKinds[kind]) - shared) /
                             layers_at_once(job.config())};
  });
}

Bytes SplitLowerBound::least_memory(const ParallelConfig& config) const {
  const double layers = std::ceil(1.0 * scenario_.job.model.num_layers / config.pp);
  Bytes least(std::numeric_limits<double>::infinity());
  for_each_kind(counts_, [&](std::size_t kind, double /*count*/) {
    least = std::min(least, state_of(layers_[kind], config) +
                                config.micro_batch_size * layers_[kind].kept / config.vpp);
  });
  return layers * least + reserved_memory(scenario_.cluster.gpu, scenario_.stack);
}

bool SplitLowerBound::fits_none(const ParallelConfig& config, Bytes capacity) const {
  const Bytes room = (capacity - reserved_memory(scenario_.cluster.gpu, scenario_.stack)) *
                     (1.0 + kMemoryRounding);
  const double microbatches =
      static_cast<double>(scenario_.job.global_batch_size) / config.dp / config.micro_batch_size;
  bool fits = true;
  for_each_kind(counts_, [&](std::size_t kind, double count) {
    const Bytes state = state_of(layers_[kind], config);
    const Bytes kept = config.micro_batch_size * layers_[kind].kept;
    const auto held_by = [&](double in_flight) {  // whole layers
      return static_cast<double>(
          static_cast<std::int64_t>(room / (state + kept * std::min(microbatches, in_flight))));
    };
    // Mostly the stages at the ends decide: the first has room for the fewest layers, the last for
    // the most.
    if (!fits || config.pp * held_by(in_flight_.front()) >= count) {
      return;
    }
    double held = 0.0;
    if (config.pp * held_by(in_flight_.back()) >= count) {
      for (auto stage = in_flight_.begin(); stage != in_flight_.end() && held < count; ++stage) {
        held += held_by(*stage);
      }
    }
    fits = held >= count;
  });
  return !fits;
}

Bytes SplitLowerBound::state_of(const LayerLoad& layer, const ParallelConfig& config) const {
  const Bytes state = model_state(scenario_.stack, config, layer.matrices, scenario_.cluster.gpu);
  if (!may_reduce_by_chunk(config)) {
    return state;
  }
  // With any number of microbatches, gradients take at least a shard.
  return state - gradient_memory(scenario_.stack, config, {.whole = layer.matrices}) +
         gradient_memory(scenario_.stack, config, {.sharded = layer.matrices});
}

}  // namespace ptdp
