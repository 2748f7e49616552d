// The settings that all ranks of a run agree on.
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

/// In which steps the operations are timed one by one. Times on a GPU cost 1 % of a step.
struct OperationTiming {
  std::int64_t first = 0;   ///< The first such step, counted from where the run began.
  std::int64_t period = 1;  ///< Steps from one to the next; 0 for no such step.

  /// Returns whether step `number` is one, counted from where the run began.
  [[nodiscard]] constexpr bool includes(std::int64_t number) const {
    return period > 0 && number >= first && (number - first) % period == 0;
  }
};

/// Everything that determines what the ranks of a run compute and send.
struct TrainingSettings {
  /// The model, resolved; find_unsupported_feature() must return nothing.
  TransformerConfig model;
  ParallelConfig config;
  Schedule schedule;              ///< The schedule, complete and without a fault.
  std::vector<int> stage_layers;  ///< Number of layers by virtual stage, in model order.
  std::int64_t global_batch_size = 1;
  // What runs beside compute, in the modes that the simulator is given.
  MessageMode messages = MessageMode::kBlocking;
  DataMode data = DataMode::kBlocking;
  /// Whether collectives of tensor parallelism run behind the matrix products of backward passes.
  bool overlaps_tensor = false;
  /// Whether pipeline messages are split over the tensor-parallel group.
  bool scatters_messages = true;

  DataType type = DataType::kFloat32;
  DropoutRates dropout;
  std::uint64_t seed = 1;  ///< Seed of initial values, dropout and synthetic data.
  /// Whether n replicas of one microbatch each sum as one replica sums n. Weight gradients are then
  /// formed apart before they are added, and collectives sum in the order of ranks.
  bool is_reproducible = false;
  /// Whether collectives use CollectiveAlgorithm::kOrdered, else kRing.
  bool uses_ordered_sums = false;

  OperationTiming operation_timing = {};

  LearningRateSchedule learning_rate;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double gradient_clip = 1.0;  ///< Largest global norm of the gradients; 0 for no clipping.
};

}  // namespace ptdp
