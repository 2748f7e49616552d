// What the stages of a run share, and the microbatch that passes through them.
#pragma once

#include <cstdint>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"
#include "kernels/backend.h"
#include "runtime/operation_clock.h"
#include "runtime/parameters/sharded_units.h"

namespace ptdp {

/// Settings that all stages of a run share.
struct StageSettings {
  TransformerConfig model;  ///< The model, with all defaults resolved.
  int micro_batch_size = 1;
  DataType type = DataType::kFloat32;
  Recompute recompute = Recompute::kNone;
  bool sequence_parallel = false;
  /// Whether collectives of column-parallel layers run behind their products, when the communicator
  /// lets them. It applies to backward passes that form both gradients.
  bool overlaps_tensor = false;
  DropoutRates dropout;
  std::uint64_t seed = 0;
  /// Whether weight gradients are formed apart and then added to those of earlier microbatches.
  /// Replicas with one microbatch each sum so. Otherwise the product itself adds them.
  bool adds_gradients_apart = false;
  Sharding sharding = {};
  /// Times products and attention; null when nobody asks for the times.
  OperationClock* clock = nullptr;
};

/// A microbatch on its way through the stages.
struct Microbatch {
  int index = 0;          ///< Number of the microbatch within the step and replica.
  std::int64_t step = 0;  ///< Step of the training, from 0; dropout differs from step to step.
  std::int64_t first_sample = 0;  ///< Number of the first sample within the step's global batch.
  /// Input tokens, i32 [s, b]; set when the stage begins the model. The buffer must live until the
  /// last call for the microbatch.
  Buffer tokens = {};
  /// Target tokens, i32 [s, b]; set when the stage ends the model. The buffer must live until the
  /// last call for the microbatch.
  Buffer targets = {};
  /// Factor on every token's gradient: 1/(tokens of the global batch), times the loss scale in
  /// fp16.
  double gradient_scale = 1.0;
};

}  // namespace ptdp
