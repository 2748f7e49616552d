// Activations that pipeline ranks keep for backward passes.
#pragma once

#include <array>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/pipeline_rank/rank_layers.h"
#include "cost_model/units.h"

namespace ptdp {

/// Layers that keep activations, by how much each keeps.
struct KeptLayers {
  /// Layers that keep what the config's recomputation leaves of them: the recomputed ones where it
  /// covers only some, else all.
  LayerCounts usual{};
  LayerCounts whole{};  ///< Layers that keep all, because others are recomputed.

  KeptLayers& operator+=(const KeptLayers& other);
  friend KeptLayers operator*(const KeptLayers& layers, double factor);
};

/// Computes the activations that many pipeline ranks keep, caching what they share. Not for stacks
/// of MemoryModel::kPtdp.
class RankActivations {
 public:
  /// Keeps a reference to the job's scenario, which must outlive the object.
  explicit RankActivations(const PlannedJob& job);

  /// Returns what a layer of a kind keeps of one microbatch; `kind` is its place in kLayerKinds.
  [[nodiscard]] Bytes of_layer(std::size_t kind) const { return usual_[kind]; }
  /// Returns what pipeline rank `stage` keeps at the peak of the schedule, of all microbatches in
  /// flight and in all its chunks. It counts layers and, where the model begins, the embedding's
  /// dropout masks. `config` may differ from the constructor's in dp, ZeRO stage and layers per
  /// stage; `layers` are its own.
  [[nodiscard]] Bytes of_rank(const ParallelConfig& config, const LayersOfRanks& layers,
                              int rank) const;
  /// Returns what a virtual stage (0 … pp·vpp−1) keeps of one microbatch.
  [[nodiscard]] Bytes of_virtual_stage(const ParallelConfig& config, int virtual_stage) const;

 private:
  using KeptByLayer = std::array<Bytes, kLayerKinds.size()>;

  [[nodiscard]] Bytes of_layers(const KeptLayers& layers) const;
  [[nodiscard]] Bytes most_of_a_layer() const;
  /// Returns the layers that pipeline rank `stage` keeps activations of at its peak, with `chunks`
  /// chunks in flight.
  [[nodiscard]] KeptLayers layers_at_peak(const ParallelConfig& config, const LayersOfRanks& layers,
                                          int rank, double chunks, double microbatches) const;
  /// Returns the embedding's dropout masks of `microbatches` microbatches.
  [[nodiscard]] Bytes embedding_masks(const ParallelConfig& config, double microbatches) const;

  const Scenario& scenario_;
  KeptByLayer usual_{};  // by kind, for each field of KeptLayers
  KeptByLayer whole_{};
};

/// Returns what a virtual stage (0 … pp·vpp−1) keeps of one microbatch until its backward pass: the
/// activations of its layers. Where it begins the model, the embedding's dropout mask is added.
[[nodiscard]] Bytes virtual_stage_activations(const PlannedJob& job, int virtual_stage);

}  // namespace ptdp
