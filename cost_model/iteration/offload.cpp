// Times transfers between GPU and host, and counts what lies in the host's memory.
#include "cost_model/iteration/offload.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <vector>

#include "cost_model/layer/layer_activations.h"

namespace ptdp {
namespace {

constexpr double kGradientBytes = 4.0;   // an fp32 gradient that comes to the host
constexpr double kParameterBytes = 4.0;  // an fp32 parameter that goes back

/// Returns `bytes` for each of the parameters that a rank's optimizer updates; the rank holds
/// `held`.
Bytes of_shard(const ParallelConfig& config, const RankParameters& held, double bytes) {
  return Bytes(updated_by_rank(held * bytes, config));
}

/// Returns how many layers, the first ones, have their activations offloaded.
int offloaded_layers(const ParallelConfig& config, int num_layers) {
  return config.offload_num_layers > 0 ? config.offload_num_layers : num_layers - 1;
}

/// Returns the activations that a layer of each kind keeps; 0 for kinds that the model does not
/// have.
std::array<Bytes, kLayerKinds.size()> kept_by_kind(const PlannedJob& job) {
  std::array<Bytes, kLayerKinds.size()> kept;
  for_each_kind(layers_of_rank(job.model(), job.config(), 0),
                [&](std::size_t kind, double /*count*/) {
                  kept.at(kind) = kept_by_layer(job.scenario(), job.config(), kLayerKinds[kind]);
                });
  return kept;
}

/// Returns how long the passes of all layers in `passes` wait for `transfers`, those of the first
/// layers. Each transfer starts after its own layer's pass and the transfer before it. It must be
/// over before the pass that would otherwise put one more layer on the GPU than stay.
Seconds wait_for(const std::vector<Seconds>& transfers, const std::vector<Seconds>& passes) {
  const std::size_t stay = passes.size() - transfers.size();
  std::vector<Seconds> over(transfers.size());
  Seconds link;
  Seconds now;
  Seconds waited;
  for (std::size_t layer = 0; layer < passes.size(); ++layer) {
    if (layer >= stay) {
      const Seconds wait = std::max(over[layer - stay] - now, Seconds(0.0));
      waited += wait;
      now += wait;
    }
    now += passes[layer];
    if (layer < transfers.size()) {
      link = std::max(link, now) + transfers[layer];
      over[layer] = link;
    }
  }
  return waited;
}

}  // namespace

Seconds host_optimizer_time(const PlannedJob& job, const RankParameters& parameters) {
  assert(job.cluster().host.has_value());
  const HostSpec& host = *job.cluster().host;
  const Seconds transfer =
      of_shard(job.config(), parameters, std::max(kGradientBytes, kParameterBytes)) /
      host.link_bandwidth;
  const Seconds update = of_shard(job.config(), parameters, job.stack().host_optimizer_traffic) /
                         host.memory_bandwidth;
  return std::max(transfer, update);
}

OffloadTime activation_offload_time(const PlannedJob& job) {
  assert(job.cluster().host.has_value());
  const TransformerConfig& model = job.model();
  const auto kept = kept_by_kind(job);
  const int offloaded = offloaded_layers(job.config(), model.num_layers);
  std::vector<Seconds> transfers;
  std::vector<Seconds> forward;
  std::vector<Seconds> backward;
  for (int i = 0; i < model.num_layers; ++i) {
    const std::size_t kind = index_of(kind_of_layer(model, i));
    const LayerCosts& layer = job.costs().layers[kind];
    forward.push_back(layer.forward.total());
    backward.push_back(layer.backward.total());
    if (i < offloaded) {
      transfers.push_back(kept.at(kind) / job.cluster().host->link_bandwidth);
    }
  }
  return {.forward = wait_for(transfers, forward), .backward = wait_for(transfers, backward)};
}

Bytes activations_on_gpu(const TransformerConfig& model, const ParallelConfig& config, Bytes kept,
                         Bytes largest_layer) {
  if (!offloads_activations(config.offload)) {
    return kept;
  }
  const int layers =
      model.num_layers + model.mtp_num_layers - offloaded_layers(config, model.num_layers);
  return std::min(kept, static_cast<double>(layers) * largest_layer);
}

double optimizer_bytes_on_gpu(const StackSpec& stack, const ParallelConfig& config) {
  return stack.optimizer_bytes -
         (offloads_optimizer(config.offload) ? stack.offloaded_optimizer_bytes : 0.0);
}

Bytes host_memory(const PlannedJob& job) {
  const TransformerConfig& model = job.model();
  Bytes total;
  if (offloads_optimizer(job.config().offload)) {
    total += of_shard(job.config(), most_parameters(model, job.config()),
                      job.stack().offloaded_optimizer_bytes + kGradientBytes + kParameterBytes);
  }
  if (offloads_activations(job.config().offload)) {
    const auto kept = kept_by_kind(job);
    const int offloaded = offloaded_layers(job.config(), model.num_layers);
    for (int i = 0; i < offloaded; ++i) {
      total += kept.at(index_of(kind_of_layer(model, i)));
    }
  }
  return total;
}

}  // namespace ptdp
