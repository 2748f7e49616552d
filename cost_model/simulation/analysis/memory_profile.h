// Computes what a rank holds over a step.
#pragma once

#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/simulation/timeline.h"
#include "cost_model/units.h"

namespace ptdp {

/// What takes memory in a step. Vectors by virtual stage or by rank have an entry for each, or one
/// for all.
struct MemoryUse {
  /// Activations of one microbatch, by virtual stage. They are held from the start of F to the end
  /// of B, or of a W of its own.
  std::vector<Bytes> activations;
  /// Memory that F, B, I, W or R of a stage needs while it runs, by virtual stage.
  std::vector<Bytes> working = {Bytes(0.0)};
  /// Size of the buffer of one message. The receiver holds it from the start of the receive to the
  /// end of the action that takes it. The sender holds it from the end of the action that made it
  /// to the end of the send.
  Bytes message;
  /// Memory held all the time, by pipeline rank: weights, gradients, optimizer, reserve.
  std::vector<Bytes> fixed = {Bytes(0.0)};
};

/// Memory held from a time on, until the next sample.
struct MemorySample {
  Seconds time;
  Bytes held;
};

/// Memory that a rank holds as a step function of time, from zero on.
struct MemoryProfile {
  std::vector<MemorySample> samples;  ///< Samples in the order of time, each of another amount.
  Bytes peak;
  Seconds peak_time;  ///< Time at which the peak is first reached.
};

/// Returns the memory profile of one rank. `spans` has the span of each of the rank's actions
/// (Timeline::spans). What is freed at a moment can be taken again at the same moment.
[[nodiscard]] MemoryProfile memory_profile(const Schedule& schedule, const std::vector<Span>& spans,
                                           int rank, const MemoryUse& use);

}  // namespace ptdp
