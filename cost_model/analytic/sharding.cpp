#include "cost_model/analytic/sharding.h"

#include <algorithm>

#include "cost_model/analytic/collectives.h"
#include "cost_model/analytic/fp8_casts.h"
#include "cost_model/analytic/memory_bound.h"
#include "cost_model/analytic/rank_parameters.h"
#include "cost_model/analytic/recomputed_layers.h"

namespace ptdp {
namespace {

constexpr double kMatricesOfALayer = 4.0;     // QKV, projection, h→4h, 4h→h
constexpr double kLargestMatrix = 1.0 / 3.0;  // of a layer's weights
constexpr double kUnitsAtOnce = 2.0;          // layers that are whole: one computes, one travels

}  // namespace

ShardingTime sharding_time(const Scenario& scenario, const ParallelConfig& config,
                           const MicrobatchCosts& costs) {
  const TransformerConfig& model = scenario.job.model;
  const StackSpec& stack = scenario.stack;
  const Placements groups = place_groups(config, scenario.cluster);
  const double matrices = stack.shards_matrices_apart ? kMatricesOfALayer : 1.0;
  const auto gather = [&](const RankParameters& parameters) {
    return shards_weights(config)
               ? matrices * gathering_time(scenario, config, groups, parameters, matrices)
               : Seconds(0.0);
  };
  const auto reduce = [&](const RankParameters& parameters) {
    return matrices * reduction_time(scenario, config, groups, parameters, matrices);
  };
  const auto behind = [&](Seconds communication, Seconds compute) {
    return overlaps_reduction(stack, config.pp)
               ? exposed_behind(communication, compute, stack.overlap_slowdown)
               : communication;
  };

  // The host launches kernels of the pieces while it could launch those of layers.
  const Seconds pieces =
      stack.shards_matrices_apart
          ? matrices * static_cast<double>(groups.data.size) * stack.host_time_per_kernel
          : Seconds(0.0);
  const RankParameters ends = {.dense = end_parameters(model, config, 0)};
  const Bytes staged(stage_parameters(model, config, 0).total() * stack.gradient_staging_traffic);
  ShardingTime time{.forward = gather(ends),
                    .backward = reduce(ends) + memory_bound_time(staged, scenario.cluster.gpu)};
  const std::size_t first = index_of(kind_of_layer(model, 0));
  const LayerCounts recomputed = recomputed_of_stage(model, config, 0);
  for_each_kind(layers_of_stage(model, config, 0), [&](std::size_t kind, double count) {
    const LayerCosts& layer = costs.layers[kind];
    const RankParameters parameters = layer_parameters_of_rank(model, config, kLayerKinds[kind]);
    const Seconds gathered = gather(parameters);
    const Seconds again = layer.recompute(config.recompute).total();
    const double prefetched = count - (kind == first ? 1.0 : 0.0);
    time.forward += count * (shards_weights(config) ? pieces : Seconds(0.0));
    const double in_pieces =
        (gathers_again(config) ? 1.0 : 0.0) + (stack.all_reduces_shards ? 0.0 : 1.0);
    time.backward += count * in_pieces * pieces;
    time.forward += prefetched * behind(gathered, layer.forward.total()) +
                    (kind == first ? gathered : Seconds(0.0));
    const double with_recompute = std::min(recomputed[kind], count);
    const Seconds gathered_again = gathers_again(config) ? gathered : Seconds(0.0);
    const Seconds reduced = reduce(parameters);
    const auto exposed_of = [&](Seconds backward) {
      return stack.all_reduces_shards ? behind(gathered_again, backward) + reduced
                                      : behind(gathered_again + reduced, backward);
    };
    time.backward += with_recompute * exposed_of(layer.backward.total() + again);
    if (with_recompute < count) {
      time.backward += (count - with_recompute) * exposed_of(layer.backward.total());
    }
  });
  return time;
}

Bytes sharding_volume(const Scenario& scenario, const ParallelConfig& config) {
  const StackSpec& stack = scenario.stack;
  const Placements groups = place_groups(config, scenario.cluster);
  const RankParameters held = stage_parameters(scenario.job.model, config, 0);
  const auto share = [&](const RankParameters& bytes) {
    return ring_all_gather_volume(Bytes(bytes.dense), groups.data.size) +
           ring_all_gather_volume(Bytes(bytes.experts), groups.expert_data.size);
  };
  const auto microbatches =
      static_cast<double>(num_microbatches(scenario.job.global_batch_size, config));
  const double gathers =
      shards_weights(config) ? (gathers_again(config) ? 2.0 : 1.0) * microbatches : 1.0;
  const RankParameters gradients = held * stack.reduced_gradient_bytes;
  const double reductions = stack.all_reduces_shards ? 2.0 : 1.0;  // reduced, then gathered whole
  const Bytes shard(shard_of(gradients, config));
  return gathers * share(gathered_weights(stack, held)) +
         microbatches * (reductions * share(gradients) +
                         ring_all_reduce_volume(shard, groups.shard_replicas.size));
}

Bytes sharding_buffers(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  const StackSpec& stack = scenario.stack;
  const auto of_parameters = [&](const RankParameters& parameters) {
    return (gathers_again(config) ? gathered_weights(stack, parameters).total() : 0.0) +
           stack.reduced_gradient_bytes * parameters.total();
  };
  double largest = 0.0;
  for_each_kind(layers_of_stage(model, config, 0), [&](std::size_t kind, double /*count*/) {
    largest = std::max(largest,
                       of_parameters(layer_parameters_of_rank(model, config, kLayerKinds[kind])));
  });
  const double unit = stack.shards_matrices_apart ? kLargestMatrix * largest : largest;
  const double kept = shards_weights(config) && !gathers_again(config)
                          ? gathered_weights(stack, stage_parameters(model, config, 0)).total()
                          : 0.0;
  return Bytes(kUnitsAtOnce * unit + of_parameters({.dense = end_parameters(model, config, 0)}) +
               kept);
}

}  // namespace ptdp
