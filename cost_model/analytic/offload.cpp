#include "cost_model/analytic/offload.h"

#include <algorithm>
#include <cassert>

#include "cost_model/analytic/memory.h"

namespace ptdp {
namespace {

constexpr double kGradientBytes = 4.0;   // fp32, as it comes to the host
constexpr double kParameterBytes = 4.0;  // as it goes back

/// Of the parameters that a rank's optimizer updates, so many bytes of each.
Bytes of_shard(const ParallelConfig& config, const RankParameters& held, double bytes) {
  return Bytes(updated_by_rank(held * bytes, config));
}

/// The first so many layers, whose activations leave.
int offloaded_layers(const ParallelConfig& config, int num_layers) {
  return config.offload_num_layers > 0 ? config.offload_num_layers : num_layers - 1;
}

/// Passes of layers behind which the activations of the `i`-th of `offloaded` layers travel: what
/// there are to each, and the remainder for the first ones. The first starts once its own pass is
/// over, which takes one off.
int passes_behind(int i, int offloaded, int num_layers) {
  const int each = num_layers / offloaded + (i < num_layers % offloaded ? 1 : 0);
  return i == 0 ? each - 1 : each;
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
  const int offloaded = offloaded_layers(config, model.num_layers);
  OffloadTime time;
  for (int i = 0; i < offloaded; ++i) {
    const LayerKind kind = kind_of_layer(model, i);
    const LayerCosts& layer = costs.layers[index_of(kind)];
    const Seconds transfer =
        kept_by_layer(scenario, config, kind) / scenario.cluster.host->link_bandwidth;
    const auto passes = static_cast<double>(passes_behind(i, offloaded, model.num_layers));
    time.forward += std::max(transfer - passes * layer.forward.total(), Seconds(0.0));
    time.backward += std::max(transfer - passes * layer.backward.total(), Seconds(0.0));
  }
  return time;
}

Bytes activations_on_gpu(const ParallelConfig& config, int num_layers, Bytes kept,
                         Bytes largest_layer) {
  if (!offloads_activations(config.offload)) {
    return kept;
  }
  const int layers = num_layers - offloaded_layers(config, num_layers) + 1;
  return std::min(kept, static_cast<double>(layers) * largest_layer);
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
    for (int i = 0; i < offloaded_layers(config, model.num_layers); ++i) {
      total += kept_by_layer(scenario, config, kind_of_layer(model, i));
    }
  }
  return total;
}

}  // namespace ptdp
