// Takes the communication out of microbatch costs and sums it over virtual stages.
#include "cost_model/iteration/collective_durations.h"

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/iteration/virtual_stage_durations.h"
#include "cost_model/network/collectives.h"

namespace ptdp {
namespace {

PassTime collectives_of(const PassTime& pass) {
  return {.tensor_parallel = pass.tensor_parallel,
          .context_parallel = pass.context_parallel,
          .expert_parallel = pass.expert_parallel};
}

/// Returns the part of the exchanges of `embedding` and `logits` that microbatch_costs() puts into
/// the other pass than the rest. With sequence parallelism it is an all-gather of the activations,
/// else 0.
Seconds gathering_of_ends(const PlannedJob& job) {
  if (!job.config().sequence_parallel) {
    return Seconds(0.0);
  }
  const TransformerConfig& model = job.model();
  const Bytes activations(1.0 * element_bytes(job.stack().precision) *
                          static_cast<double>(tokens_of_rank(model, job.config())) *
                          model.hidden_size);
  return all_gather_time(activations,
                         place_group(RankGrid(job.config()), Dimension::kTensor, job.cluster()),
                         job.cluster());
}

}  // namespace

std::vector<StageDurations> virtual_stage_collectives(const PlannedJob& job) {
  Scenario without_overhead = job.scenario();
  without_overhead.stack.microbatch_overhead = Seconds(0.0);
  const Seconds gathering = gathering_of_ends(job);
  MicrobatchCosts collectives = {
      .embedding = collectives_of(job.costs().embedding),
      .logits = collectives_of(job.costs().logits),
      .embedding_forward = job.costs().embedding.tensor_parallel - gathering,
      .logits_forward = gathering};
  for (std::size_t kind = 0; kind < job.costs().layers.size(); ++kind) {
    const LayerCosts& layer = job.costs().layers[kind];
    collectives.layers[kind] = {.forward = collectives_of(layer.forward),
                                .backward = collectives_of(layer.backward),
                                .selective = collectives_of(layer.selective),
                                .weight_gradient = collectives_of(layer.weight_gradient)};
  }
  std::vector<StageDurations> stages =
      virtual_stage_durations({without_overhead, job.config(), &collectives});
  if (shards_gradients(job.config())) {
    const ShardingTime time = sharding_time(job);
    add_to_passes(time.forward, time.backward, stages);
  }
  return stages;
}

}  // namespace ptdp
