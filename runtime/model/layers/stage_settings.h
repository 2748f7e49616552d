// What the stages of a run share, and what passes through them.
#pragma once

#include <cstdint>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"
#include "kernels/backend.h"
#include "runtime/operation_clock.h"
#include "runtime/parameters/sharded_units.h"

namespace ptdp {

/// What all stages of a run share.
struct StageSettings {
  TransformerConfig model;  ///< Resolved.
  int micro_batch_size = 1;
  DataType type = DataType::kFloat32;
  Recompute recompute = Recompute::kNone;
  bool sequence_parallel = false;
  /// Whether, in a backward pass that forms both gradients, collectives of column-parallel layers
  /// run behind their products, where the communicator lets them.
  bool overlaps_tensor = false;
  DropoutRates dropout;
  std::uint64_t seed = 0;
  /// Whether weight gradients are formed apart and then added to those of earlier microbatches, as
  /// those of replicas with one microbatch each are; else the product adds them.
  bool adds_gradients_apart = false;
  Sharding sharding = {};
  OperationClock* clock = nullptr;  ///< Times products and attention; null: nobody asks.
};

/// A microbatch on its way through the stages.
struct Microbatch {
  int index = 0;                  ///< Of the step and replica.
  std::int64_t step = 0;          ///< Of the training, from 0; dropout differs from step to step.
  std::int64_t first_sample = 0;  ///< In the step's global batch.
  /// Both until the last call for the microbatch.
  Buffer tokens = {};   ///< i32 [s, b]; where the stage begins the model.
  Buffer targets = {};  ///< i32 [s, b]; where it ends it.
  /// Factor of every token's gradient: 1/(tokens of the global batch), times the loss scale of
  /// fp16.
  double gradient_scale = 1.0;
};

}  // namespace ptdp
