// Lower bounds of the memory of stages, for any split of a model's layers over them.
#pragma once

#include <array>
#include <vector>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_parameters.h"

namespace ptdp {

/// Bounds memory for configurations that differ only in dp, ZeRO stage, microbatch size and the
/// split of layers. The bounds grow with the microbatch size, but not with dp and sharding.
class SplitLowerBound {
 public:
  /// `job` holds any one of the configurations to bound. Keeps a reference to its scenario.
  explicit SplitLowerBound(const PlannedJob& job);

  /// Returns a lower bound of what the stage with most layers holds: the state of the matrices of
  /// its layers, and the activations of one microbatch in one chunk.
  [[nodiscard]] Bytes least_memory(const ParallelConfig& config) const;
  /// Returns whether no split of the layers fits into `capacity` per GPU. That is so when, for some
  /// kind of layers, all stages together have room for fewer layers than the model has. Each stage
  /// is taken to hold nothing but these layers and the activations of the microbatches in flight.
  [[nodiscard]] bool fits_none(const ParallelConfig& config, Bytes capacity) const;

 private:
  /// What one layer of a kind takes on a GPU.
  struct LayerLoad {
    RankParameters matrices;
    Bytes kept;  ///< Activations kept for the backward pass, per sequence.
  };

  [[nodiscard]] Bytes state_of(const LayerLoad& layer, const ParallelConfig& config) const;

  const Scenario& scenario_;
  LayerCounts counts_;
  std::vector<double> in_flight_;                     // least_in_flight of each stage
  std::array<LayerLoad, kLayerKinds.size()> layers_;  // only kinds of the model are set
};

}  // namespace ptdp
