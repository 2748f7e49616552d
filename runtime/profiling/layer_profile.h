// Times of a device's operations as the layers of a model use them, with the caches as these leave
// them.
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
  TransformerConfig model;  ///< Resolved.
  int micro_batch_size = 1;
  double dropout = 0.0;
};

/// Of a microbatch's forward and backward pass, and of a training step: one measured pass.
[[nodiscard]] double pass_flops(const ProfiledModel& profiled);
[[nodiscard]] double step_flops(const ProfiledModel& profiled);

/// An operation at its sizes.
using OperationKey = std::pair<DeviceOperation, OperationSizes>;
/// Seconds of each.
using OperationTimes = std::map<OperationKey, double>;

/// Graphs of a run.
inline constexpr std::int64_t kGraphsOfRun = 2;

/// How passes are run.
struct LayerRun {
  int ranks = 1;  ///< Each runs the model for itself, all at the same time.
  DataType type = DataType::kFloat32;
  double seconds = 1.0;  ///< After which no pass begins,
  int least_passes = 3;  ///< but for so many,
  int most_passes = 50;  ///< at most so many.
  std::function<std::unique_ptr<Backend>()> make_backend;
  Backend* backend = nullptr;    ///< Of one rank: this one, which keeps what its libraries know.
  std::int64_t first_graph = 0;  ///< Keys of graphs from here on; of runs on one backend apart.
  std::function<bool()> is_cancelled;  ///< Asked before every pass; ends with what there is.
};

/// What was measured.
struct LayerTimes {
  OperationTimes operations;   ///< In the middle half of the passes of all ranks, the mean.
  std::vector<double> passes;  ///< Seconds of whole passes of all ranks.
  /// Of compute, what ranks would lose that waited for the slowest where those of a tensor-parallel
  /// group do, twice a layer and pass; in the median of the passes, 0 of one rank.
  double skew = 0.0;
  double processor_share = 1.0;  ///< Of the time of the passes, what the threads had a core.
};

/// Runs forward, backward and an optimizer step of the model after one that is not measured: the
/// operations of its layers one by one, and the optimizer's as kAddSquares and kAdamW (with the
/// clearing of gradients) of all parameters. Throws OutOfMemory, and Error(kRuntimeFault) where
/// threads cannot be started.
[[nodiscard]] LayerTimes time_layers(const ProfiledModel& profiled, const LayerRun& run);

/// The mean time of every operation over those that have it.
[[nodiscard]] OperationTimes mean_of(const std::vector<OperationTimes>& times);

/// The shorter of two times of an operation: of two runs of the same, that which was disturbed
/// less.
void keep_shorter(OperationTimes& all, const OperationTimes& more);

}  // namespace ptdp
