// How long each action of a schedule takes that has the machine to itself.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/schedule/stage_ranks.h"
#include "cost_model/simulation/step_times.h"

namespace ptdp {

/// The factor exp(σz) of one action, z standard normal: the Box–Muller transform of two hashes
/// (splitmix64) of the seed, the rank and the action's position in the rank's list. 1 where σ = 0.
[[nodiscard]] double jitter_factor(const Jitter& jitter, int rank, std::size_t position);

/// StepTimes looked up by action. Both must outlive it. `times` has one entry or one per stage (per
/// rank) where it says so, and stragglers that are ranks of the schedule.
class ActionDurations {
 public:
  ActionDurations(const Schedule& schedule, const StepTimes& times);

  /// Of F, B, I, W or R at full speed: the stage's, times the rank's stragglers and its jitter.
  [[nodiscard]] Seconds compute(const Action& action, int rank, std::size_t position) const {
    return Seconds(depends_on_position_ ? at_position(action, rank, position)
                                        : passes_with(action).duration_of(action.kind));
  }
  /// Whether jitter or what they take alone changes the durations of passes_with().
  [[nodiscard]] bool depends_on_position() const { return depends_on_position_; }
  /// What the passes of a stage take on the rank that holds it, with its stragglers [s].
  struct alignas(64) Passes {  // a cache line
    std::array<double, 5> durations = {};
    double from_stage_before = 0.0;  ///< How long what F needs is under way, if it is not sent.
    double from_stage_behind = 0.0;  ///< That of B and I.

    [[nodiscard]] double duration_of(ActionKind kind) const {
      return durations[static_cast<std::size_t>(kind)];
    }
  };
  /// Returns the passes of the action's stage; the action's own is one of them.
  [[nodiscard]] const Passes& passes_with(const Action& action) const {
    return passes_[ranks_.row(action.stage, action.microbatch)];
  }
  [[nodiscard]] bool is_within_node(int rank, int other) const {
    return ptdp::is_within_node(times_, rank, other);
  }
  [[nodiscard]] const TransferTime& message(int rank, int other) const {
    return message_between(times_, rank, other);
  }
  /// Of one bucket: REDUCE_GRAD or UNSHARD.
  [[nodiscard]] const TransferTime& collective(const Action& action) const;
  [[nodiscard]] Seconds tied() const { return times_.tied.total(); }
  [[nodiscard]] Seconds norm() const { return times_.norm; }
  /// How many of so many ranks meet for TIED or NORM.
  [[nodiscard]] std::size_t ranks_that_meet(std::size_t num_ranks) const {
    return times_.ranks_meet ? num_ranks : 1;
  }
  [[nodiscard]] Seconds optimizer(int rank) const;

 private:
  [[nodiscard]] Passes passes_on(int rank, int stage, int microbatch) const;
  [[nodiscard]] double at_position(const Action& action, int rank, std::size_t position) const;

  const StepTimes& times_;
  StageRanks ranks_;
  bool has_alone_;                ///< Whether any stage's passes take longer alone.
  bool depends_on_position_;      ///< By that or by jitter: seldom, and asked of every action.
  std::vector<double> slowdown_;  ///< By rank.
  std::vector<Passes> passes_;    ///< By StageRanks::row.
  std::vector<std::size_t> first_backward_;  ///< Of a rank's actions; if has_alone_.
  std::vector<std::size_t> last_forward_;
};

}  // namespace ptdp
