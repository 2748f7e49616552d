// Activations that stages keep for backward passes.
#pragma once

#include <array>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/stage.h"
#include "cost_model/stage/stage_layers.h"
#include "cost_model/units.h"

namespace ptdp {

/// Layers that keep what recomputation leaves of them, as they are recomputed or as the only ones
/// there are, and those that keep all because others are recomputed.
struct KeptLayers {
  LayerCounts usual{};
  LayerCounts whole{};

  KeptLayers& operator+=(const KeptLayers& other);
  friend KeptLayers operator*(const KeptLayers& layers, double factor);
};

/// What one stage after another keeps, with what they share worked out once. Of any stack but one
/// of MemoryModel::kPtdp.
class KeptActivations {
 public:
  /// Keeps a reference to the scenario.
  explicit KeptActivations(const PlannedJob& job);

  /// What a layer of a kind keeps of one microbatch.
  [[nodiscard]] Bytes of_layer(std::size_t kind) const { return usual_[kind]; }
  /// At the peak of the schedule, of all microbatches in flight, in all chunks of `stage`: of the
  /// layers and, where the model begins, the embedding's dropout masks. `config` may differ from
  /// the constructor's in dp, ZeRO stage and layers per stage; `layers` are its own.
  [[nodiscard]] Bytes of_stage(const ParallelConfig& config, const LayersOfStages& layers,
                               int stage) const;
  /// Of one microbatch, in a virtual stage of the model (0 … pv−1).
  [[nodiscard]] Bytes of_virtual_stage(const ParallelConfig& config, int virtual_stage) const;

 private:
  using KeptByLayer = std::array<Bytes, kLayerKinds.size()>;

  [[nodiscard]] Bytes of_layers(const KeptLayers& layers) const;
  [[nodiscard]] Bytes most_of_a_layer() const;
  [[nodiscard]] KeptLayers layers_at_peak(const ParallelConfig& config,
                                          const LayersOfStages& layers, int stage, double chunks,
                                          double microbatches) const;
  /// Of the embedding's dropout.
  [[nodiscard]] Bytes embedding_masks(const ParallelConfig& config, double microbatches) const;

  const Scenario& scenario_;
  KeptByLayer usual_{};  // as KeptLayers
  KeptByLayer whole_{};
};

/// What a virtual stage of the model (0 … pv−1) keeps of one microbatch until its backward pass:
/// the activations of its layers and, where it begins the model, the embedding's dropout mask.
[[nodiscard]] Bytes virtual_stage_activations(const PlannedJob& job, int virtual_stage);

}  // namespace ptdp
