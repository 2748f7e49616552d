// What a rank measured in one step.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/simulation/timeline.h"
#include "runtime/operation_clock.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// A collective of the tensor-parallel group within an action.
struct SubSpan {
  std::size_t action = 0;  ///< Index in the rank's order.
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Span span;
  std::int64_t bytes = 0;  ///< Of the whole buffer.
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
  SentBytes model;  ///< The norm.
};

}  // namespace ptdp
