#include "cost_model/layer/measured_layers.h"

#include <algorithm>
#include <cmath>

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/layer/transformer_layer.h"

namespace ptdp {
namespace {

/// Returns the part of a layer that one tensor-parallel rank runs, as a layer of its own: no
/// collectives, and norms of whole rows.
TransformerConfig part_of_rank(TransformerConfig model, int tp) {
  model.num_layers = 1;
  model.num_attention_heads /= tp;
  model.num_query_groups = key_heads_of_rank(model, tp);
  model.ffn_hidden_size /= tp;
  return model;
}

/// Returns what the model says of a measured layer: of the part that its GPU ran.
LayerCosts modeled_costs(const MeasuredLayer& layer, const ClusterSpec& cluster,
                         const StackSpec& stack) {
  Scenario scenario{.job = {.model = part_of_rank(layer.model, layer.tp), .global_batch_size = 1},
                    .cluster = cluster,
                    .stack = stack};
  scenario.cluster.gpu.layer_factors.clear();
  return layer_costs(scenario, {.micro_batch_size = layer.micro_batch_size});
}

}  // namespace

LayerFactor factor_of(const MeasuredLayer& layer, const ClusterSpec& cluster,
                      const StackSpec& stack) {
  const ParallelConfig config{.micro_batch_size = layer.micro_batch_size};
  const LayerCosts modeled = modeled_costs(layer, cluster, stack);
  return {.tokens = static_cast<double>(tokens_of_rank(layer.model, config)),
          .tp = layer.tp,
          .forward = layer.forward / modeled.forward.total(),
          .backward = layer.backward / (modeled.backward.total() + modeled.gradient_accumulation)};
}

double largest_launch_slowdown(const MeasuredLayer& layer, const ClusterSpec& cluster,
                               const StackSpec& stack) {
  StackSpec quick_to_launch = stack;
  quick_to_launch.host_time_per_kernel = Seconds(0.0);
  const LayerCosts modeled = modeled_costs(layer, cluster, stack);
  const LayerCosts of_device = modeled_costs(layer, cluster, quick_to_launch);
  // A pass that waits for the host lasts as long as its launches.
  const auto share_left = [](const PassTime& pass, const PassTime& device, Seconds measured) {
    return pass.launch > device.launch ? std::min(measured / pass.total(), 1.0) : 1.0;
  };
  return cluster.launch_slowdown *
         std::min(share_left(modeled.forward, of_device.forward, layer.forward),
                  share_left(modeled.backward, of_device.backward, layer.backward));
}

LayerFactor layer_factor(const GpuSpec& gpu, double tokens, int tp) {
  LayerFactor factor{.tokens = tokens, .tp = tp};
  double weights = 0.0;
  double forward = 0.0;
  double backward = 0.0;
  for (const LayerFactor& measured : gpu.layer_factors) {
    const double along_tokens = std::log2(tokens / measured.tokens);
    const double along_ranks = std::log2(static_cast<double>(tp) / measured.tp);
    const double squared = along_tokens * along_tokens + along_ranks * along_ranks;
    if (squared < 1e-12) {
      factor.forward = measured.forward;
      factor.backward = measured.backward;
      return factor;
    }
    const double weight = 1.0 / (squared * squared);
    weights += weight;
    forward += weight * std::log(measured.forward);
    backward += weight * std::log(measured.backward);
  }
  if (weights > 0.0) {
    factor.forward = std::exp(forward / weights);
    factor.backward = std::exp(backward / weights);
  }
  return factor;
}

}  // namespace ptdp
