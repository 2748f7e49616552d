// When every action of a schedule ran, and what follows from it.
#pragma once

#include <algorithm>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/units.h"

namespace ptdp {

/// From when to when something ran.
struct Span {
  Seconds start;
  Seconds end;

  [[nodiscard]] Seconds length() const { return end - start; }
};

/// What one rank did.
struct RankTimes {
  Seconds start;             ///< Of the first action that computes: F, B, I, W or R.
  Seconds end;               ///< Of its last action of any kind.
  Seconds work;              ///< How long it computed.
  int peak_activations = 0;  ///< In virtual stages of one microbatch.
  Seconds compute_end;       ///< Of the last action that computes.
  Seconds gathers;           ///< How long it gathered parameters before it could begin.

  /// The second of the literature's two bubbles: what the rank waits between the first action that
  /// computes and the last. Zero on every rank is what zero-bubble schedules mean by their name.
  [[nodiscard]] Seconds idle_in_span() const {
    return std::max(compute_end - start - work, Seconds(0.0));  // rounding may leave less
  }
};

struct SimulatedTimes {
  std::vector<RankTimes> ranks;

  /// From time zero to the end of the last action.
  [[nodiscard]] Seconds makespan() const;
  /// The longest time of a rank between its first compute and its last action, with what it gathers
  /// before: the step where ranks go on without waiting for one another.
  [[nodiscard]] Seconds longest_span() const;
  /// Of the busiest rank.
  [[nodiscard]] Seconds most_work() const;
  /// The first of the two bubbles: the makespan without the work of a rank, on average over the
  /// ranks. What a complete schedule does besides computing and does not hide is part of it.
  [[nodiscard]] Seconds bubble() const;
  /// The bubble as a share of the makespan (`bubble_fraction` of memory/pipeline.h divides by the
  /// work instead).
  [[nodiscard]] double bubble_ratio() const;
};

/// A simulated or measured step, action by action.
struct Timeline {
  SimulatedTimes times;
  std::vector<std::vector<Span>> spans;  ///< By rank, beside the actions of Schedule::orders.
};

}  // namespace ptdp
