// Times a schedule action by action.
#pragma once

#include <span>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/units.h"

namespace ptdp {

/// How long the actions of one virtual stage take for one microbatch.
struct StageDurations {
  Seconds forward;
  Seconds backward;  ///< The whole; as a rule the sum of the two below.
  Seconds input_gradient;
  Seconds weight_gradient;
};

/// The same with whole backward passes as long as their halves.
[[nodiscard]] StageDurations stage_durations(Seconds forward, Seconds input_gradient,
                                             Seconds weight_gradient);

/// What one rank did.
struct RankTimes {
  Seconds start;             ///< Of its first action.
  Seconds end;               ///< Of its last.
  Seconds work;              ///< The sum of its actions.
  int peak_activations = 0;  ///< In virtual stages of one microbatch.

  /// The second of the literature's two bubbles: what the rank waits between its first action and
  /// its last. Zero on every rank is what zero-bubble schedules mean by their name.
  [[nodiscard]] Seconds idle_in_span() const { return end - start - work; }
};

struct SimulatedTimes {
  std::vector<RankTimes> ranks;

  /// From time zero to the end of the last action.
  [[nodiscard]] Seconds makespan() const;
  /// The first of the two bubbles: the makespan without the work of a rank, on average over the
  /// ranks.
  [[nodiscard]] Seconds bubble() const;
  /// The bubble as a share of the makespan (`bubble_fraction` of analytic/pipeline.h divides by the
  /// work instead).
  [[nodiscard]] double bubble_ratio() const;
};

/// Works through a schedule: every rank does its actions in order, each as soon as the one before
/// is done and its input is there. An overlapped pair starts when both inputs are there and lasts
/// as long as its actions one after the other: it is communication that it hides, and that is not
/// part of the durations. Messages between ranks arrive `p2p_latency` after they were made, any
/// number at a time, and keep nobody busy. `durations` are per virtual stage and not negative; one
/// stands for all stages. The schedule must be one that find_fault accepts up to its order; throws
/// Error with the rank and the action where it comes to a deadlock.
[[nodiscard]] SimulatedTimes simulate(const Schedule& schedule,
                                      std::span<const StageDurations> durations,
                                      Seconds p2p_latency = Seconds(0.0));

}  // namespace ptdp
