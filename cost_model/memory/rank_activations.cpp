// Counts which chunks and layers keep activations at the peak of a schedule.
#include "cost_model/memory/rank_activations.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/iteration/offload.h"
#include "cost_model/iteration/schedule_shape.h"
#include "cost_model/layer/layer_activations.h"
#include "cost_model/memory/pipeline_formulas.h"
#include "cost_model/memory/runtime_memory.h"
#include "cost_model/pipeline_rank/recomputed_layers.h"
#include "cost_model/schedule/generators/generators.h"

namespace ptdp {
namespace {

constexpr double kMaskBytes = 1.0;  // of a dropout mask, per element

/// Returns the layers of a virtual stage that keep activations, out of its layers `all`. Where
/// several are recomputed at once, these are the layers whose inputs are kept.
KeptLayers layers_keeping(const TransformerConfig& model, const ParallelConfig& config,
                          int virtual_stage, const LayerCounts& all) {
  if (recomputes_some(config)) {
    KeptLayers layers{.usual = recomputed_of_virtual_stage(model, config, virtual_stage),
                      .whole = all};
    layers.whole += layers.usual * -1.0;
    return layers;
  }
  const int at_once = layers_at_once(config);
  if (at_once == 1) {
    return {.usual = all};
  }
  const double count = total(all);
  return {.usual = all * (std::ceil(count / at_once) / std::max(count, 1.0))};
}

/// Returns how many chunks of one microbatch each a pipeline rank keeps activations of at its
/// worst. Passes may run beside those of another microbatch (hides_dispatch()). The forward one has
/// then begun before the backward one, as otherwise, and both go on layer by layer: no more are
/// held, but for a layer.
double chunks_kept(const ParallelConfig& config, int rank, double microbatches) {
  const ScheduleTraits& traits = traits_of(config.schedule);
  if (traits.pipelines_held > 0) {
    return chunks_in_flight(config.pp, config.vpp, rank, microbatches);
  }
  return traits.peak_activations(schedule_sizes(config, static_cast<std::int64_t>(microbatches)),
                                 rank);
}

/// Returns how many microbatches' embeddings are kept where a pipeline rank holds `chunks`.
/// Interleaved, rank 0 warms up with (v+1)p − 2 forward passes in groups of p. The last of these
/// are again of its first chunk: 2p of them at the worst moment.
double embeddings_kept(const ParallelConfig& config, double chunks, double microbatches) {
  const int pipelines = traits_of(config.schedule).pipelines_held;
  const double bound = pipelines > 0 ? 1.0 * pipelines * config.pp : chunks;
  return std::min(bound, microbatches);
}

}  // namespace

KeptLayers& KeptLayers::operator+=(const KeptLayers& other) {
  usual += other.usual;
  whole += other.whole;
  return *this;
}

KeptLayers operator*(const KeptLayers& layers, double factor) {
  return {.usual = layers.usual * factor, .whole = layers.whole * factor};
}

RankActivations::RankActivations(const PlannedJob& job) : scenario_(job.scenario()) {
  const ActivationStorage storage = activation_storage(job.model(), job.stack());
  const auto kept = [&](Recompute recompute, std::size_t kind) {
    return layer_activations(job.model(), job.config(), recompute, kLayerKinds[kind], storage);
  };
  for_each_kind(layers_of_model(job.model()), [&](std::size_t kind, double /*count*/) {
    usual_[kind] = kept(job.config().recompute, kind);
    if (recomputes_some(job.config())) {
      whole_[kind] = kept(Recompute::kNone, kind);
    }
  });
}

Bytes RankActivations::of_rank(const ParallelConfig& config, const LayersOfRanks& layers,
                               int rank) const {
  const auto microbatches =
      static_cast<double>(num_microbatches(scenario_.job.global_batch_size, config));
  const double chunks = chunks_kept(config, rank, microbatches);
  Bytes kept = of_layers(layers_at_peak(config, layers, rank, chunks, microbatches));
  kept = activations_on_gpu(scenario_.job.model, config, kept, most_of_a_layer());
  if (holds_embedding(config, rank) && has_dropout(scenario_.job.model)) {
    const double in_flight = embeddings_kept(config, chunks, microbatches);
    kept += embedding_masks(config, in_flight);
  }
  return kept;
}

Bytes RankActivations::of_virtual_stage(const ParallelConfig& config, int virtual_stage) const {
  const TransformerConfig& model = scenario_.job.model;
  Bytes kept = of_layers(layers_keeping(model, config, virtual_stage,
                                        layers_of_virtual_stage(model, config, virtual_stage)));
  if (virtual_stage == 0 && has_dropout(model)) {
    kept += embedding_masks(config, 1.0);
  }
  return kept;
}

/// Which of its chunks a rank holds depends on the schedule. Where they differ in layers, as many
/// as can be are of the one that keeps most. In an interleaved schedule these are at most 2p of one
/// chunk, else at most one for each microbatch.
KeptLayers RankActivations::layers_at_peak(const ParallelConfig& config,
                                           const LayersOfRanks& layers, int rank, double chunks,
                                           double microbatches) const {
  const TransformerConfig& model = scenario_.job.model;
  const int num_chunks = config.vpp * num_copies(config);
  if (!config.recomputes_by_layers() &&
      ((config.layers_per_stage.empty() && has_one_kind(model)) || num_chunks == 1)) {
    LayerCounts counts = layers.of_rank(rank);
    for (double& count : counts) {
      count = chunks * (count / num_chunks);
    }
    return {.usual = counts};
  }
  struct Chunk {
    KeptLayers layers;
    Bytes kept;
  };
  const auto keeps_more = [](const Chunk& a, const Chunk& b) { return a.kept > b.kept; };
  std::vector<Chunk> of_chunks;  // those that keep most first
  of_chunks.reserve(static_cast<std::size_t>(num_chunks));
  for_each_virtual_stage(config, rank, [&](int virtual_stage) {
    const KeptLayers keeping =
        layers_keeping(model, config, virtual_stage, layers.of_virtual_stage(virtual_stage));
    const Chunk chunk{keeping, of_layers(keeping)};
    of_chunks.insert(std::upper_bound(of_chunks.begin(), of_chunks.end(), chunk, keeps_more),
                     chunk);
  });
  const int pipelines = traits_of(config.schedule).pipelines_held;
  const double most =
      pipelines > 0 ? std::min(1.0 * pipelines * config.pp, microbatches) : microbatches;
  KeptLayers kept;
  for (const Chunk& chunk : of_chunks) {
    const double held = std::min(chunks, most);
    kept += chunk.layers * held;
    chunks -= held;
  }
  return kept;
}

Bytes RankActivations::of_layers(const KeptLayers& layers) const {
  Bytes kept;
  for (std::size_t kind = 0; kind < kLayerKinds.size(); ++kind) {
    kept += layers.usual[kind] * usual_[kind] + layers.whole[kind] * whole_[kind];
  }
  return kept;
}

Bytes RankActivations::most_of_a_layer() const {
  return std::max(*std::max_element(usual_.begin(), usual_.end()),
                  *std::max_element(whole_.begin(), whole_.end()));
}

Bytes RankActivations::embedding_masks(const ParallelConfig& config, double microbatches) const {
  const TransformerConfig& model = scenario_.job.model;
  const double sbh = static_cast<double>(tokens_of_rank(model, config)) * model.hidden_size;
  const double shards = config.sequence_parallel ? config.tp : 1.0;
  return Bytes(kMaskBytes * microbatches * sbh / shards);
}

Bytes virtual_stage_activations(const PlannedJob& job, int virtual_stage) {
  if (job.stack().memory_model == MemoryModel::kPtdp) {
    return virtual_stage_memory(job, virtual_stage).kept;
  }
  return RankActivations(job).of_virtual_stage(job.config(), virtual_stage);
}

}  // namespace ptdp
