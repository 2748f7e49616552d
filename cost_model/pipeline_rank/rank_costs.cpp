// Sums layers and ends of the model into the costs of pipeline ranks.
#include "cost_model/pipeline_rank/rank_costs.h"

#include <algorithm>
#include <numeric>

#include "cost_model/pipeline_rank/rank_layers.h"
#include "cost_model/pipeline_rank/recomputed_layers.h"

namespace ptdp {
namespace {

/// Returns the time of a layer's passes and of its recomputation. Where only some layers are
/// recomputed, recomputation is left out: the caller counts it.
Seconds layer_time(const LayerCosts& layer, const ParallelConfig& config) {
  return layer.forward.total() + layer.backward.total() +
         (recomputes_some(config) ? Seconds(0.0) : layer.recompute(config.recompute).total());
}

}  // namespace

RankCosts rank_costs(const PlannedJob& job, int rank) {
  const double share = 1.0 / num_copies(job.config());  // of microbatches that one copy serves
  const LayerCosts layers =
      sum_of(job.costs(), layers_of_rank(job.model(), job.config(), rank) * share);
  RankCosts result{
      .forward = layers.forward,
      .backward = layers.backward,
      .recompute = recomputes_some(job.config())
                       ? recomputation(job.costs(), job.config(),
                                       recomputed_of_rank(job.model(), job.config(), rank) * share)
                       : layers.recompute(job.config().recompute),
      .gradient_accumulation = layers.gradient_accumulation,
      .hidden_dispatch = layers.hidden_dispatch,
      .overhead = job.config().vpp * job.stack().microbatch_overhead};
  if (holds_embedding(job.config(), rank)) {
    result.ends += job.costs().embedding * share;
    result.gradient_accumulation += job.costs().embedding_accumulation * share;
  }
  if (holds_logits(job.config(), rank)) {
    result.ends += job.costs().logits * share;
    result.gradient_accumulation +=
        uses_at_the_end(job.model()) * job.costs().embedding_accumulation * share;
  }
  return result;
}

Seconds mean_rank_time(const PlannedJob& job) {
  Seconds sum;
  for_each_kind(layers_of_model(job.model()), [&](std::size_t kind, double count) {
    sum += count * layer_time(job.costs().layers[kind], job.config());
  });
  if (recomputes_some(job.config())) {
    sum += recomputation(job.costs(), job.config(), recomputed_of_model(job.model(), job.config()))
               .total();
  }
  return (sum + job.costs().embedding.total() + job.costs().logits.total()) / job.config().pp +
         job.config().vpp * job.stack().microbatch_overhead;
}

PipelineCosts pipeline_costs(const PlannedJob& job) {
  const TransformerConfig& model = job.model();
  const bool is_partial = recomputes_some(job.config());
  std::array<Seconds, kLayerKinds.size()> of_layer;
  for (std::size_t kind = 0; kind < of_layer.size(); ++kind) {
    of_layer[kind] = layer_time(job.costs().layers[kind], job.config());
  }
  const auto of_layers = [&](const LayerCounts& counts) {
    Seconds sum;
    for (std::size_t kind = 0; kind < counts.size(); ++kind) {
      sum += counts[kind] * of_layer[kind];
    }
    return sum;
  };
  const Seconds embedding = job.costs().embedding.total();
  const Seconds logits = job.costs().logits.total();
  const double share = 1.0 / num_copies(job.config());
  int slowest = 0;
  Seconds most;
  for (int rank = 0; rank < job.config().pp; rank += rank_step(model, job.config())) {
    const Seconds again = is_partial ? recomputation(job.costs(), job.config(),
                                                     recomputed_of_rank(model, job.config(), rank))
                                           .total()
                                     : Seconds(0.0);
    const Seconds time = share * (of_layers(layers_of_rank(model, job.config(), rank)) + again +
                                  (holds_embedding(job.config(), rank) ? embedding : Seconds(0.0)) +
                                  (holds_logits(job.config(), rank) ? logits : Seconds(0.0)));
    if (time > most) {
      slowest = rank;
      most = time;
    }
  }
  return {.slowest = rank_costs(job, slowest), .mean = mean_rank_time(job)};
}

}  // namespace ptdp
