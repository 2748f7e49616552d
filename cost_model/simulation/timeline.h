// When every action of a schedule ran, and what follows from it.
#pragma once

#include <algorithm>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/units.h"

namespace ptdp {

/// The time from start to end in which something ran.
struct Span {
  Seconds start;
  Seconds end;

  [[nodiscard]] Seconds length() const { return end - start; }
};

/// What one pipeline rank did in a step.
struct RankTimes {
  Seconds start;             ///< Start of the rank's first action that computes: F, B, I, W or R.
  Seconds end;               ///< End of the rank's last action of any kind.
  Seconds work;              ///< How long the rank computed.
  int peak_activations = 0;  ///< Most activations held, in virtual stages of one microbatch.
  Seconds compute_end;       ///< End of the rank's last action that computes.
  Seconds gathers;           ///< How long the rank gathered parameters before it could begin.

  /// Returns the second of the literature's two bubbles: how long the rank waits between its first
  /// and last action that computes. Zero on every rank is what zero-bubble schedules mean by their
  /// name.
  [[nodiscard]] Seconds idle_in_span() const {
    return std::max(compute_end - start - work, Seconds(0.0));  // rounding may leave less
  }
};

/// When the ranks of one pipeline computed in a step, and the bubbles that follow from it.
struct SimulatedTimes {
  std::vector<RankTimes> ranks;

  /// Returns the time from zero to the end of the last action of any rank.
  [[nodiscard]] Seconds makespan() const;
  /// Returns the longest time of a rank from its first compute to its last action, with what it
  /// gathers before. It is the step's time if ranks go on without waiting for one another.
  [[nodiscard]] Seconds longest_span() const;
  /// Returns the compute time of the busiest rank.
  [[nodiscard]] Seconds most_work() const;
  /// Returns the first of the literature's two bubbles: how long the busiest rank, which paces the
  /// pipeline, waits for the others. It is the makespan without that rank's work, so it holds for
  /// schedules that do nothing besides computing.
  [[nodiscard]] Seconds bubble() const;
  /// Returns the bubble as a share of the makespan. (`bubble_fraction` of
  /// memory/pipeline_formulas.h divides by the work instead.)
  [[nodiscard]] double bubble_ratio() const;
  /// Returns how long an average rank does other than compute: the makespan without the mean work.
  /// It holds waits, and what a complete schedule does besides computing and does not hide.
  [[nodiscard]] Seconds not_computing() const;
};

/// A simulated or measured step, action by action.
struct Timeline {
  SimulatedTimes times;
  /// Spans by pipeline rank, one for each action of Schedule::orders.
  std::vector<std::vector<Span>> spans;
};

}  // namespace ptdp
