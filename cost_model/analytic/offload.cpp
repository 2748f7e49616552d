#include "cost_model/analytic/offload.h"

#include <algorithm>
#include <cassert>

#include "cost_model/analytic/memory.h"

namespace ptdp {
namespace {

constexpr double kGradientBytes = 4.0;   // fp32, as it comes to the host
constexpr double kParameterBytes = 4.0;  // as it goes back
constexpr double kLayersOnGpu = 2.0;     // one computes, one travels

/// Of the parameters that a rank's optimizer updates, so many bytes of each.
Bytes of_shard(const ParallelConfig& config, const RankParameters& held, double bytes) {
  return Bytes(updated_by_rank(held * bytes, config));
}

}  // namespace

Seconds host_optimizer_time(const Scenario& scenario, const ParallelConfig& config,
                            const RankParameters& parameters) {
  assert(scenario.cluster.host.has_value());
  const HostSpec& host = *scenario.cluster.host;
  const Seconds transfer =
      of_shard(config, parameters, std::max(kGradientBytes, kParameterBytes)) / host.link_bandwidth;
  const Seconds update =
      of_shard(config, parameters, scenario.stack.host_optimizer_traffic) / host.memory_bandwidth;
  return std::max(transfer, update);
}

OffloadTime activation_offload_time(const Scenario& scenario, const ParallelConfig& config,
                                    const MicrobatchCosts& costs) {
  assert(scenario.cluster.host.has_value());
  const TransformerConfig& model = scenario.job.model;
  const std::size_t last = index_of(kind_of_layer(model, model.num_layers - 1));
  OffloadTime time;
  for_each_kind(layers_of_stage(model, config, 0), [&](std::size_t kind, double count) {
    const LayerCosts& layer = costs.layers[kind];
    const Seconds transfer =
        kept_by_layer(scenario, config, kLayerKinds[kind]) / scenario.cluster.host->link_bandwidth;
    const double moved = count - (kind == last ? 1.0 : 0.0);
    time.forward += moved * std::max(transfer - layer.forward.total(), Seconds(0.0));
    time.backward += moved * std::max(transfer - layer.backward.total(), Seconds(0.0));
  });
  return time;
}

Bytes activations_on_gpu(const ParallelConfig& config, Bytes kept, Bytes largest_layer) {
  return offloads_activations(config.offload) ? std::min(kept, kLayersOnGpu * largest_layer) : kept;
}

double optimizer_bytes_on_gpu(const StackSpec& stack, const ParallelConfig& config) {
  return stack.optimizer_bytes -
         (offloads_optimizer(config.offload) ? stack.offloaded_optimizer_bytes : 0.0);
}

Bytes host_memory(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  Bytes total;
  if (offloads_optimizer(config.offload)) {
    total += of_shard(config, most_parameters(model, config),
                      scenario.stack.offloaded_optimizer_bytes + kGradientBytes + kParameterBytes);
  }
  if (offloads_activations(config.offload)) {
    for_each_kind(layers_of_stage(model, config, 0), [&](std::size_t kind, double count) {
      total += count * kept_by_layer(scenario, config, kLayerKinds[kind]);
    });
  }
  return total;
}

}  // namespace ptdp
