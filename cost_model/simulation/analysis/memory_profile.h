// What a rank holds over a step.
#pragma once

#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/simulation/timeline.h"
#include "cost_model/units.h"

namespace ptdp {

/// What takes memory. Vectors by virtual stage or by rank have an entry for each, or one for all.
struct MemoryUse {
  /// Activations of one microbatch on one virtual stage: from the start of F to the end of B, or of
  /// W where that is apart.
  std::vector<Bytes> activations;
  /// What F, B, I, W or R of a stage needs while it runs, by virtual stage.
  std::vector<Bytes> working = {Bytes(0.0)};
  /// The buffer of one message: the receiver's from the start of the receive to the end of the
  /// action that takes it, the sender's from the end of the action that made it to the end of the
  /// send.
  Bytes message;
  /// There all the time, by rank: weights, gradients, optimizer, reserve.
  std::vector<Bytes> fixed = {Bytes(0.0)};
};

/// From a time on, until the next sample.
struct MemorySample {
  Seconds time;
  Bytes held;
};

/// A step function of time, from zero on.
struct MemoryProfile {
  std::vector<MemorySample> samples;  ///< In the order of time, each another amount.
  Bytes peak;
  Seconds peak_time;  ///< When it is reached first.
};

/// Of one rank of a schedule whose actions ran as `spans` says, a span each (Timeline::spans). What
/// is freed when something else is taken can be taken.
[[nodiscard]] MemoryProfile memory_profile(const Schedule& schedule, const std::vector<Span>& spans,
                                           int rank, const MemoryUse& use);

}  // namespace ptdp
