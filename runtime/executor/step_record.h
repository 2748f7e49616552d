// What a rank measured in one step.
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

/// Groups whose calls are looked at one by one.
enum class CallGroup : std::uint8_t { kTensor, kForward, kBackward, kData };
inline constexpr std::array<std::string_view, 4> kCallGroupNames = {"tensor", "pipeline_forward",
                                                                    "pipeline_backward", "data"};

/// A collective within an action, of the tensor-parallel group or of the replicas that share
/// shards.
struct SubSpan {
  std::size_t action = 0;  ///< Index in the rank's order.
  CallGroup group = CallGroup::kTensor;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Span span;
  std::int64_t bytes = 0;  ///< Of the whole buffer.
  Seconds hidden = {};     ///< Of the span: what the rank went on with until it waited for it.

  /// Time in which the rank did nothing else.
  [[nodiscard]] Seconds exposed() const { return span.length() - hidden; }
};

/// Times [s] are of the steady clock, the same for all ranks of a host.
struct StepRecord {
  Span step;  ///< From the first action's start to the last one's end.
  // Both empty once the step is not among the last kDetailedSteps.
  std::vector<Span> actions;  ///< Beside the rank's order; receives: when the message was there.
  std::vector<SubSpan> sub_spans;                       ///< In order.
  std::array<double, kNumOperationKinds> operations{};  ///< Time [s] by OperationKind.
  std::optional<double> loss;  ///< Mean over the tokens of the global batch; where it is known.
  double gradient_norm = 0.0;  ///< Before clipping, without the loss scale; 0 where it is skipped.
  double loss_scale = 1.0;
  bool is_skipped = false;  ///< The gradients overflowed: the weights are as before.
};

/// What a transport that says so expects of a call (Communicator::estimate).
struct CallEstimate {
  CallGroup group = CallGroup::kTensor;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::int64_t bytes = 0;  ///< Of the whole buffer or the message.
  double seconds = 0.0;
  std::size_t action = 0;  ///< One that makes it: index in the rank's order.
};

/// What a rank reports at the end of a run.
struct RankRecord {
  std::vector<StepRecord> steps;
  std::int64_t peak_bytes = 0;  ///< Through the backend's allocator.
  int peak_activations = 0;     ///< Microbatches of virtual stages held at the worst moment.
  // Sent in all steps, by group.
  SentBytes tensor;
  SentBytes pipeline_forward;
  SentBytes pipeline_backward;
  SentBytes data;  ///< Gradients, weights and the loss.
  SentBytes tied;
  SentBytes model;                      ///< The norm.
  std::vector<CallEstimate> estimates;  ///< Of each group and kind the largest call.
};

/// A group of ranks by its name in reports, and where a record has what was sent in it.
struct TrafficGroup {
  std::string_view name;
  SentBytes RankRecord::*sent;
};
inline constexpr int kNumTrafficGroups = 6;
inline constexpr std::array<TrafficGroup, kNumTrafficGroups> kTrafficGroups = {
    {{"tensor", &RankRecord::tensor},
     {"pipeline_forward", &RankRecord::pipeline_forward},
     {"pipeline_backward", &RankRecord::pipeline_backward},
     {"data", &RankRecord::data},
     {"tied", &RankRecord::tied},
     {"model", &RankRecord::model}}};

}  // namespace ptdp
