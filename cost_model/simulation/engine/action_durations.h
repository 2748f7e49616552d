// How long each action of a schedule takes if it has the machine to itself.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/schedule/stage_ranks.h"
#include "cost_model/simulation/step_times.h"

namespace ptdp {

/// Returns the factor exp(σz) of one action, z standard normal; 1 for σ = 0. z comes from the
/// Box–Muller transform of two hashes (splitmix64) of the seed, the rank and the action's position
/// in the rank's list.
[[nodiscard]] double jitter_factor(const Jitter& jitter, int rank, std::size_t position);

/// Looks StepTimes up by action. The schedule and the times must outlive it. Vectors of `times`
/// must have one entry or one per stage (per rank), and stragglers must be ranks of the schedule.
class ActionDurations {
 public:
  ActionDurations(const Schedule& schedule, const StepTimes& times);

  /// Returns the time of an F, B, I, W or R at full speed: the stage's, times the rank's stragglers
  /// and its jitter.
  [[nodiscard]] Seconds compute(const Action& action, int rank, std::size_t position) const {
    return Seconds(depends_on_position_ ? at_position(action, rank, position)
                                        : passes_with(action).duration_of(action.kind));
  }
  /// Whether compute() differs from passes_with(), because of jitter or of passes that take longer
  /// alone.
  [[nodiscard]] bool depends_on_position() const { return depends_on_position_; }
  /// Times of a stage's passes on the rank that holds it, with the rank's stragglers [s].
  struct alignas(64) Passes {  // a cache line
    std::array<double, 5> durations = {};
    double from_stage_before = 0.0;  ///< Time that what F needs is under way as an implied message.
    /// Time that what B and I need is under way as an implied message.
    double from_stage_behind = 0.0;

    [[nodiscard]] double duration_of(ActionKind kind) const {
      return durations[static_cast<std::size_t>(kind)];
    }
  };
  /// Returns the times of all passes of an action's stage, the action's own among them.
  [[nodiscard]] const Passes& passes_with(const Action& action) const {
    return passes_[ranks_.row(action.stage, action.microbatch)];
  }
  [[nodiscard]] bool is_within_node(int rank, int other) const {
    return ptdp::is_within_node(times_, rank, other);
  }
  [[nodiscard]] const TransferTime& message(int rank, int other) const {
    return message_between(times_, rank, other);
  }
  /// Returns the time of one bucket: a REDUCE_GRAD or an UNSHARD.
  [[nodiscard]] const TransferTime& collective(const Action& action) const;
  [[nodiscard]] Seconds tied() const { return times_.tied.total(); }
  [[nodiscard]] Seconds norm() const { return times_.norm; }
  /// Returns how many of `num_ranks` ranks meet for TIED or NORM: all, or 1 if ranks do not meet.
  [[nodiscard]] std::size_t ranks_that_meet(std::size_t num_ranks) const {
    return times_.ranks_meet ? num_ranks : 1;
  }
  [[nodiscard]] Seconds optimizer(int rank) const;

 private:
  [[nodiscard]] Passes passes_on(int rank, int stage, int microbatch) const;
  [[nodiscard]] double at_position(const Action& action, int rank, std::size_t position) const;

  const StepTimes& times_;
  StageRanks ranks_;
  bool has_alone_;  ///< Whether any stage's passes take longer alone.
  /// Whether passes take longer alone or have jitter: seldom, but asked for every action.
  bool depends_on_position_;
  std::vector<double> slowdown_;  ///< Factor of each rank's stragglers.
  std::vector<Passes> passes_;    ///< Times of passes, indexed by StageRanks::row.
  /// Position of each rank's first whole backward pass; empty unless has_alone_.
  std::vector<std::size_t> first_backward_;
  /// Position of each rank's last forward pass; empty unless has_alone_.
  std::vector<std::size_t> last_forward_;
};

}  // namespace ptdp
