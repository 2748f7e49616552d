// What a rank measured in one step, and what it reports at the end of a run.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cost_model/simulation/timeline.h"
#include "runtime/operation_clock.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Groups whose calls are recorded one by one.
enum class CallGroup : std::uint8_t { kTensor, kForward, kBackward, kData };
/// Names of groups in reports, by CallGroup.
inline constexpr std::array<std::string_view, 4> kCallGroupNames = {"tensor", "pipeline_forward",
                                                                    "pipeline_backward", "data"};

/// A collective within an action, of the tensor-parallel group or of the replicas that share
/// shards.
struct SubSpan {
  std::size_t action = 0;  ///< Index in the rank's order.
  CallGroup group = CallGroup::kTensor;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Span span;
  std::int64_t bytes = 0;  ///< Size of the whole buffer [B].
  Seconds hidden = {};  ///< Part of the span in which the rank went on computing before it waited.

  /// Returns the time in which the rank did nothing else.
  [[nodiscard]] Seconds exposed() const { return span.length() - hidden; }
};

/// Measurements of one step. Times [s] are of the steady clock, common to all ranks of a host.
struct StepRecord {
  Span step;  ///< From the first action's start to the last one's end.
  /// Spans of the actions in the rank's order. A receive's span is when the message was there.
  /// Empty once the step is not among the last kDetailedSteps.
  std::vector<Span> actions;
  /// Collectives within actions, by their start. Empty once the step is not among the last
  /// kDetailedSteps.
  std::vector<SubSpan> sub_spans;
  /// Time [s] by OperationKind; nullopt in a step whose operations were not timed.
  std::optional<std::array<double, kNumOperationKinds>> operations = {};
  /// Mean loss over the tokens of the global batch. Only ranks of the last stage know it.
  std::optional<double> loss;
  /// Norm before clipping, without the loss scale; 0 when the step is skipped.
  double gradient_norm = 0.0;
  double loss_scale = 1.0;
  bool is_skipped = false;  ///< Whether gradients overflowed, so that the weights are unchanged.
  /// Whether something other than training lies before the step: the run's start or a checkpoint.
  bool is_after_pause = false;
};

/// What a transport expects of a call, if it can tell (Communicator::estimate).
struct CallEstimate {
  CallGroup group = CallGroup::kTensor;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::int64_t bytes = 0;  ///< Size of the whole buffer or the message [B].
  /// Expected duration [s].
  double seconds = 0.0;
  std::size_t action = 0;  ///< An action that makes the call: index in the rank's order.
};

/// What a rank reports at the end of a run.
struct RankRecord {
  std::vector<StepRecord> steps;
  std::int64_t peak_bytes = 0;  ///< Peak memory [B] through the backend's allocator.
  /// Memory of the device that is taken beside the backend's, after the first step [B].
  std::int64_t bytes_beside = 0;
  /// Most activations held at once: pairs of virtual stage and microbatch.
  int peak_activations = 0;
  // Bytes and messages sent in all steps, by group.
  SentBytes tensor;
  SentBytes pipeline_forward;
  SentBytes pipeline_backward;
  SentBytes data;  ///< Gradients, weights and the loss.
  SentBytes tied;
  SentBytes model;                      ///< The norm of the gradients.
  std::vector<CallEstimate> estimates;  ///< The largest call of each group and kind.
};

/// A group of ranks: its name in reports, and the member of RankRecord with what was sent in it.
struct TrafficGroup {
  std::string_view name;
  SentBytes RankRecord::*sent;
};
inline constexpr int kNumTrafficGroups = 6;
/// The groups of ranks that reports show, with their traffic in a RankRecord.
inline constexpr std::array<TrafficGroup, kNumTrafficGroups> kTrafficGroups = {
    {{"tensor", &RankRecord::tensor},
     {"pipeline_forward", &RankRecord::pipeline_forward},
     {"pipeline_backward", &RankRecord::pipeline_backward},
     {"data", &RankRecord::data},
     {"tied", &RankRecord::tied},
     {"model", &RankRecord::model}}};

}  // namespace ptdp
