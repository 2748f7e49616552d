// Times, counts and buffers what full sharding gathers and reduces, layer by layer.
#include "cost_model/iteration/sharding.h"

#include <algorithm>
#include <array>

#include "cost_model/layer/fp8_casts.h"
#include "cost_model/layer/layer_kernels.h"
#include "cost_model/network/collectives.h"
#include "cost_model/operations/memory_bound.h"
#include "cost_model/pipeline_rank/rank_parameters.h"
#include "cost_model/pipeline_rank/recomputed_layers.h"

namespace ptdp {
namespace {

constexpr double kMatricesOfALayer = 4.0;     // QKV, projection, h→4h, 4h→h
constexpr double kLargestMatrix = 1.0 / 3.0;  // share of a layer's weights
constexpr double kUnitsAtOnce = 2.0;          // layers that are whole: one computes, one travels

/// Weights of a layer that are gathered for its recomputation and once more for its backward pass.
struct GatheredTwice {
  double share = 0.0;     ///< Share of the layer's weights.
  double matrices = 0.0;  ///< Number of matrices.
};

/// Returns the matrices that are used again after more parameters than the stack keeps weights for.
/// The distance between the two uses of a matrix is twice the parameters that follow it in the
/// layer.
GatheredTwice gathered_twice(const PlannedJob& job) {
  const TransformerConfig& model = job.model();
  const double most = job.stack().max_reuse_distance;
  if (most == 0.0 || repeats(job.config().recompute) != Repeats::kLayer ||
      !gathers_again(job.config())) {
    return {};
  }
  const auto context = static_cast<double>(context_width(model));
  const auto heads = static_cast<double>(query_width(model) + 2 * key_width(model));
  const double gates = model.gated_linear_unit ? 2.0 : 1.0;
  const double mlp = model.ffn_hidden_size;
  const std::array backwards = {mlp, gates * mlp, context, heads};  // by the hidden size
  const double per_width = 1.0 * model.hidden_size / job.config().tp;
  GatheredTwice result;
  double follow = 0.0;
  for (const double width : backwards) {
    if (2.0 * follow * per_width >= most) {
      result.share += width;
      result.matrices += 1.0;
    }
    follow += width;
  }
  result.share /= follow;
  return result;
}

/// Returns the time of a gather's copies into whole weights, for which compute waits.
Seconds copy_time(const PlannedJob& job, const RankParameters& parameters) {
  if (!job.stack().copies_gathered_weights || !shards_weights(job.config())) {
    return Seconds(0.0);
  }
  return memory_bound_time(Bytes(2.0 * gathered_weights(job.stack(), parameters).total()),
                           job.cluster().gpu);
}

/// Returns what communication adds to compute that runs beside it, where the stack overlaps them.
Seconds exposed(const PlannedJob& job, Seconds communication, Seconds compute) {
  return overlaps_reduction(job.stack(), job.config().pp)
             ? exposed_behind(communication, compute, job.stack().overlap_slowdown)
             : communication;
}

}  // namespace

ShardingTime sharding_time(const PlannedJob& job) {
  const TransformerConfig& model = job.model();
  const StackSpec& stack = job.stack();
  const Placements& groups = job.groups();
  const double matrices = stack.shards_matrices_apart ? kMatricesOfALayer : 1.0;
  const auto gather = [&](const RankParameters& parameters) {
    return shards_weights(job.config()) ? matrices * gathering_time(job, parameters, matrices)
                                        : Seconds(0.0);
  };
  const auto reduce = [&](const RankParameters& parameters) {
    return matrices * reduction_time(job, parameters, matrices);
  };

  // The host launches kernels of the pieces in the time in which it could launch those of layers.
  const Seconds pieces =
      stack.shards_matrices_apart
          ? matrices * static_cast<double>(groups.data.size) * host_time_per_kernel(job.scenario())
          : Seconds(0.0);
  const RankParameters ends = {.dense = end_parameters(model, job.config(), 0)};
  const Bytes staged(rank_parameters(model, job.config(), 0).total() *
                     stack.gradient_staging_traffic);
  ShardingTime time{.forward = gather(ends) + copy_time(job, ends),
                    .backward = reduce(ends) + memory_bound_time(staged, job.cluster().gpu)};
  const std::size_t first = index_of(kind_of_layer(model, 0));
  const LayerCounts recomputed = recomputed_of_rank(model, job.config(), 0);
  const GatheredTwice twice = gathered_twice(job);
  for_each_kind(layers_of_rank(model, job.config(), 0), [&](std::size_t kind, double count) {
    const LayerCosts& layer = job.costs().layers[kind];
    const RankParameters parameters =
        layer_parameters_of_rank(model, job.config(), kLayerKinds[kind]);
    const Seconds gathered = gather(parameters);
    const Seconds copies = count * copy_time(job, parameters);
    time.forward += copies;
    time.backward += gathers_again(job.config()) ? copies : Seconds(0.0);
    const Seconds again = layer.recompute(job.config().recompute).total();
    const double prefetched = count - (kind == first ? 1.0 : 0.0);
    time.forward += count * (shards_weights(job.config()) ? pieces : Seconds(0.0));
    const double in_pieces =
        (gathers_again(job.config()) ? 1.0 : 0.0) + (stack.all_reduces_shards ? 0.0 : 1.0);
    time.backward += count * in_pieces * pieces;
    time.forward += prefetched * exposed(job, gathered, layer.forward.total()) +
                    (kind == first ? gathered : Seconds(0.0));
    const double with_recompute = std::min(recomputed[kind], count);
    const Seconds gathered_again = gathers_again(job.config()) ? gathered : Seconds(0.0);
    const Seconds reduced = reduce(parameters);
    const auto exposed_of = [&](Seconds gathers, Seconds backward) {
      return stack.all_reduces_shards ? exposed(job, gathers, backward) + reduced
                                      : exposed(job, gathers + reduced, backward);
    };
    time.backward +=
        with_recompute *
        (twice.share > 0.0
             ? exposed(job, gathered_again, again) + twice.matrices / matrices * pieces +
                   exposed_of(twice.share * gathered_again, layer.backward.total())
             : exposed_of(gathered_again, layer.backward.total() + again));
    if (with_recompute < count) {
      time.backward +=
          (count - with_recompute) * exposed_of(gathered_again, layer.backward.total());
    }
  });
  return time;
}

Bytes sharding_volume(const PlannedJob& job) {
  const StackSpec& stack = job.stack();
  const Placements& groups = job.groups();
  const TransformerConfig& model = job.model();
  const RankParameters held = rank_parameters(model, job.config(), 0);
  const auto share = [&](const RankParameters& bytes) {
    return ring_all_gather_volume(Bytes(bytes.dense), groups.data.size) +
           ring_all_gather_volume(Bytes(bytes.experts), groups.expert_data.size);
  };
  const auto microbatches = static_cast<double>(job.microbatches());
  const double gathers =
      shards_weights(job.config()) ? (gathers_again(job.config()) ? 2.0 : 1.0) * microbatches : 1.0;
  RankParameters recomputed;
  for_each_kind(recomputed_of_rank(model, job.config(), 0), [&](std::size_t kind, double count) {
    recomputed += layer_parameters_of_rank(model, job.config(), kLayerKinds[kind]) * count;
  });
  const double once_more = microbatches * gathered_twice(job).share;
  const RankParameters gradients = held * stack.reduced_gradient_bytes;
  const double reductions = stack.all_reduces_shards ? 2.0 : 1.0;  // reduced, then gathered whole
  const Bytes shard(shard_of(gradients, job.config()));
  return gathers * share(gathered_weights(stack, held)) +
         once_more * share(gathered_weights(stack, recomputed)) +
         microbatches * (reductions * share(gradients) +
                         ring_all_reduce_volume(shard, groups.shard_replicas.size));
}

Bytes sharding_buffers(const PlannedJob& job) {
  const TransformerConfig& model = job.model();
  const StackSpec& stack = job.stack();
  const auto of_parameters = [&](const RankParameters& parameters) {
    return (gathers_again(job.config()) ? gathered_weights(stack, parameters).total() : 0.0) +
           stack.reduced_gradient_bytes * parameters.total();
  };
  double largest = 0.0;
  for_each_kind(layers_of_rank(model, job.config(), 0), [&](std::size_t kind, double /*count*/) {
    largest = std::max(
        largest, of_parameters(layer_parameters_of_rank(model, job.config(), kLayerKinds[kind])));
  });
  const double unit = stack.shards_matrices_apart ? kLargestMatrix * largest : largest;
  const double kept = shards_weights(job.config()) && !gathers_again(job.config())
                          ? gathered_weights(stack, rank_parameters(model, job.config(), 0)).total()
                          : 0.0;
  return Bytes(kUnitsAtOnce * unit +
               of_parameters({.dense = end_parameters(model, job.config(), 0)}) + kept);
}

}  // namespace ptdp
