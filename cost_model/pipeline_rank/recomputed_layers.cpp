// Counts recomputed layers by the config's method.
#include "cost_model/pipeline_rank/recomputed_layers.h"

#include <algorithm>

namespace ptdp {
LayerCounts recomputed_of_virtual_stage(const TransformerConfig& model,
                                        const ParallelConfig& config, int virtual_stage) {
  if (!recomputes_some(config)) {
    return layers_of_virtual_stage(model, config, virtual_stage);
  }
  const auto [begin, end] = layer_range(model, config, virtual_stage);
  const int number = config.recompute_num_layers;
  if (config.recompute_method == RecomputeMethod::kBlock) {
    return count_layers(model, begin, begin + std::min(number, end - begin));
  }
  LayerCounts counts{};
  for (int layer = begin + number - 1; layer < end; layer += number) {
    counts[index_of(kind_of_layer(model, layer))] += 1.0;
  }
  return counts;
}

LayerCounts recomputed_of_rank(const TransformerConfig& model, const ParallelConfig& config,
                               int rank) {
  if (!recomputes_some(config)) {
    return layers_of_rank(model, config, rank);
  }
  LayerCounts counts{};
  for_each_virtual_stage(config, rank, [&](int virtual_stage) {
    counts += recomputed_of_virtual_stage(model, config, virtual_stage);
  });
  return counts;
}

LayerCounts recomputed_of_model(const TransformerConfig& model, const ParallelConfig& config) {
  if (!recomputes_some(config)) {
    return layers_of_model(model);
  }
  LayerCounts counts{};
  for (int virtual_stage = 0; virtual_stage < config.pp * config.vpp; ++virtual_stage) {
    counts += recomputed_of_virtual_stage(model, config, virtual_stage);
  }
  return counts;
}

PassTime recomputation(const MicrobatchCosts& costs, const ParallelConfig& config,
                       const LayerCounts& recomputed) {
  return sum_of(costs, recomputed).recompute(config.recompute);
}

}  // namespace ptdp
