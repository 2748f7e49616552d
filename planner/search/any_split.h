// What stages hold at least, however the layers of a model are split over them.
#pragma once

#include <array>
#include <vector>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/rank_parameters.h"

namespace ptdp {

/// Bounds of memory for configurations that differ in dp, ZeRO stage, microbatch size and the split
/// of layers alone. Both grow with the microbatch, and do not with dp and sharding.
class AnySplit {
 public:
  /// `config`: any one of them. Keeps a reference to the scenario.
  explicit AnySplit(const PlannedJob& job);

  /// What the stage with most layers holds: the state of their matrices and the activations of one
  /// microbatch in one chunk.
  [[nodiscard]] Bytes least_memory(const ParallelConfig& config) const;
  /// Whether no split fits into so much: of a kind of layers, all stages together hold fewer than
  /// there are, each with nothing else but the activations of as many microbatches as are in flight
  /// there.
  [[nodiscard]] bool fits_none(const ParallelConfig& config, Bytes capacity) const;

 private:
  /// What a layer of a kind holds.
  struct LayerLoad {
    RankParameters matrices;
    Bytes kept;  ///< Of a sequence.
  };

  [[nodiscard]] Bytes state_of(const LayerLoad& layer, const ParallelConfig& config) const;

  const Scenario& scenario_;
  LayerCounts counts_;
  std::vector<double> in_flight_;                     // least_in_flight of each stage
  std::array<LayerLoad, kLayerKinds.size()> layers_;  // of the kinds that there are
};

}  // namespace ptdp
