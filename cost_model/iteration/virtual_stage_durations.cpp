// Sums the layers of virtual stages into the durations of their passes.
#include "cost_model/iteration/virtual_stage_durations.h"

#include "cost_model/pipeline_rank/recomputed_layers.h"

namespace ptdp {

std::vector<StageDurations> virtual_stage_durations(const PlannedJob& job) {
  const bool is_partial = recomputes_some(job.config());
  // Durations of one layer of each kind.
  std::array<StageDurations, kLayerKinds.size()> of_layer;
  constexpr double each_pass = 0.5;  // share of what both passes hide
  for (std::size_t kind = 0; kind < of_layer.size(); ++kind) {
    const LayerCosts& layer = job.costs().layers[kind];
    const Seconds weight_gradient = layer.weight_gradient.total();
    of_layer[kind] = stage_durations(
        layer.forward.total(),
        layer.backward.total() - weight_gradient +
            (is_partial ? Seconds(0.0) : layer.recompute(job.config().recompute).total()),
        weight_gradient, each_pass * layer.hidden_dispatch);
  }
  const int num_stages = job.config().pp * job.config().vpp;
  std::vector<StageDurations> durations;
  durations.reserve(static_cast<std::size_t>(num_stages));
  for (int stage = 0; stage < num_stages; ++stage) {
    const LayerCounts layers = layers_of_virtual_stage(job.model(), job.config(), stage);
    Seconds forward;
    Seconds input_gradient;
    Seconds weight_gradient;
    Seconds alone;
    for (std::size_t kind = 0; kind < layers.size(); ++kind) {
      forward += layers[kind] * of_layer[kind].forward;
      input_gradient += layers[kind] * of_layer[kind].input_gradient;
      weight_gradient += layers[kind] * of_layer[kind].weight_gradient;
      alone += layers[kind] * of_layer[kind].alone;
    }
    if (is_partial) {
      const LayerCounts recomputed = recomputed_of_virtual_stage(job.model(), job.config(), stage);
      input_gradient += recomputation(job.costs(), job.config(), recomputed).total();
    }
    durations.push_back(stage_durations(forward + job.stack().microbatch_overhead, input_gradient,
                                        weight_gradient, alone));
  }
  const auto add = [](StageDurations& stage, Seconds whole, Seconds in_forward, Seconds in_weight) {
    stage = stage_durations(stage.forward + in_forward,
                            stage.input_gradient + whole - in_forward - in_weight,
                            stage.weight_gradient + in_weight, stage.alone);
  };
  add(durations.front(), job.costs().embedding.total(), job.costs().embedding_forward,
      Seconds(0.0));
  add(durations.back(), job.costs().logits.total(), job.costs().logits_forward,
      job.costs().logits_weight_gradient);
  return durations;
}

}  // namespace ptdp
