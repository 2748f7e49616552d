// Times a device's operations as the layers of a model use them, with the caches as the layers
// leave them.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "cost_model/inputs/measured_operation.h"
#include "cost_model/inputs/transformer_config.h"
#include "kernels/backend.h"

namespace ptdp {

/// A small model whose layers are run for their operations.
struct ProfiledModel {
  TransformerConfig model;  ///< The model, with all defaults resolved.
  int micro_batch_size = 1;
  double dropout = 0.0;
};

/// Returns the FLOPs of a microbatch's forward and backward pass.
[[nodiscard]] double pass_flops(const ProfiledModel& profiled);
/// Returns the FLOPs of a training step, which is one measured pass.
[[nodiscard]] double step_flops(const ProfiledModel& profiled);

/// An operation and its sizes.
using OperationKey = std::pair<DeviceOperation, OperationSizes>;
/// Times of operations at their sizes [s].
using OperationTimes = std::map<OperationKey, double>;

/// Number of graphs that a run uses.
inline constexpr std::int64_t kGraphsOfRun = 2;

/// How the passes of a model are run.
struct LayerMeasurement {
  int ranks = 1;  ///< Number of ranks. Each runs the model for itself, all at the same time.
  DataType type = DataType::kFloat32;
  /// Time [s] after which no pass begins, except for the least_passes first.
  double seconds = 1.0;
  /// Time [s] of steps right before each measured one. A GPU at rest runs above the clock that its
  /// power limit leaves it in training, until the limit takes hold.
  double lead_in = 0.0;
  int least_passes = 3;  ///< Smallest number of passes.
  int most_passes = 50;  ///< Largest number of passes.
  /// Makes the backend of each rank, unless `backend` is given.
  std::function<std::unique_ptr<Backend>()> make_backend;
  /// Backend of a run with one rank, which keeps what its libraries learn; null to make backends.
  Backend* backend = nullptr;
  /// Key of the run's first graph. Runs on one backend must not share keys.
  std::int64_t first_graph = 0;
  /// Asked before every pass; when true, the run ends with what it has.
  std::function<bool()> is_cancelled;
};

/// Times that were measured in a run.
struct LayerTimes {
  /// Mean time of each operation in the middle half of the passes of all ranks.
  OperationTimes operations;
  std::vector<double> passes;  ///< Times [s] of whole passes of all ranks.
  /// Fraction of compute that ranks would lose if they waited for the slowest where tensor-parallel
  /// ranks do, twice a layer and pass. It is the median over the passes; 0 with one rank.
  double skew = 0.0;
  double processor_share = 1.0;  ///< Fraction of the passes' time in which the threads had a core.
};

/// Runs training steps of the model after one that is not measured, and times their operations.
/// Operations of layers are timed one by one. The optimizer's are timed for all parameters
/// together, as kAddSquares and kAdamW (with the clearing of gradients). Throws OutOfMemory, and
/// Error(kRuntimeFault) when threads cannot be started.
[[nodiscard]] LayerTimes time_layers(const ProfiledModel& profiled, const LayerMeasurement& run);

/// Returns the mean time of every operation over the elements of `times` that have it.
[[nodiscard]] OperationTimes mean_of(const std::vector<OperationTimes>& times);

/// Keeps in `all` the shorter of two times of each operation. Of two equal runs, that one was
/// disturbed less.
void keep_shorter(OperationTimes& all, const OperationTimes& more);

}  // namespace ptdp
