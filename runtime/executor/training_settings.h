// Everything that the ranks of a run agree on.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/schedule/lane.h"
#include "cost_model/schedule/schedule.h"
#include "kernels/data_type.h"
#include "runtime/optimizer/learning_rate.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

struct TrainingSettings {
  TransformerConfig model;  ///< Resolved; find_unsupported_feature() must be empty.
  ParallelConfig config;
  Schedule schedule;              ///< Complete, and without a fault.
  std::vector<int> stage_layers;  ///< By virtual stage, in model order.
  std::int64_t global_batch_size = 1;
  // What runs beside compute: the modes that the simulator is given.
  MessageMode messages = MessageMode::kBlocking;
  DataMode data = DataMode::kBlocking;
  /// Collectives of tensor parallelism behind the products of backward passes.
  bool overlaps_tensor = false;
  bool scatters_messages = true;  ///< Pipeline messages split over the tensor-parallel group.

  DataType type = DataType::kFloat32;
  DropoutRates dropout;
  std::uint64_t seed = 1;  ///< Of initial values, dropout and synthetic data.
  /// Sums n replicas of one microbatch each as one replica sums n: weight gradients are formed
  /// apart before they are added, and collectives sum in the order of ranks.
  bool is_reproducible = false;
  bool uses_ordered_sums = false;  ///< CollectiveAlgorithm::kOrdered, else kRing.

  /// Launches the kernels of a pass at once where the backend can: times of single operations are
  /// then unknown. Only where one rank has all of a layer.
  bool uses_graphs = false;

  LearningRateSchedule learning_rate;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double gradient_clip = 1.0;  ///< Largest global norm; 0: no clipping.
};

}  // namespace ptdp
