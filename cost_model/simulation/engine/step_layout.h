// Where the stages of a schedule and their results stand in tables, which both engines look up all
// the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/schedule/stage_ranks.h"

namespace ptdp {

/// Which way a message travels: results of forward passes or of backward passes.
enum class Direction : std::uint8_t { kForward, kBackward };
inline constexpr int kNumDirections = 2;

/// Whether an action of this kind is a message: SEND_F, RECV_F, SEND_B or RECV_B.
[[nodiscard]] constexpr bool is_message(ActionKind kind) {
  return kind >= ActionKind::kSendForward && kind <= ActionKind::kReceiveBackward;
}
[[nodiscard]] constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward;
}
/// Whether an action of this kind is a collective of data parallelism: REDUCE_GRAD or UNSHARD.
[[nodiscard]] constexpr bool is_collective(ActionKind kind) {
  return kind == ActionKind::kReduceGradients || kind == ActionKind::kGatherParameters;
}
/// Returns the direction of a message or a copy.
[[nodiscard]] constexpr Direction direction_of(ActionKind kind) {
  return kind == ActionKind::kSendForward || kind == ActionKind::kReceiveForward ||
                 kind == ActionKind::kCopyForward
             ? Direction::kForward
             : Direction::kBackward;
}

/// Whether no send or receive is an action of the schedule, so that results arrive by themselves.
[[nodiscard]] bool implies_messages(const Schedule& schedule);

/// Indices into tables by stage and microbatch, or by rank and chunk. The schedule must outlive it.
class StepLayout {
 public:
  explicit StepLayout(const Schedule& schedule);

  [[nodiscard]] int last_stage() const { return last_stage_; }
  /// Returns the pipeline rank that holds `stage` for `microbatch`, as rank_of() of schedule.h,
  /// without a division.
  [[nodiscard]] int rank_of(int stage, int microbatch) const {
    return ranks_.of(stage, microbatch);
  }
  /// Returns which of its rank's virtual stages a stage is, from 0 to chunks_per_rank() − 1.
  [[nodiscard]] int chunk_of(int stage, int rank) const {
    return schedule_.placement == StagePlacement::kBidirectional ? (stage == rank ? 0 : 1)
                                                                 : chunk_of_[stage];
  }
  [[nodiscard]] int chunks_per_rank() const { return chunks_per_rank_; }
  /// Returns the index of a rank's chunk in a table of all ranks' chunks.
  [[nodiscard]] std::size_t chunk_slot(int stage, int rank) const {
    return static_cast<std::size_t>(rank) * chunks_per_rank_ + chunk_of(stage, rank);
  }

  /// Returns the index of a stage and microbatch in a table of num_slots().
  [[nodiscard]] std::size_t slot(int stage, int microbatch) const {
    return stage * stride_ + microbatch;
  }
  [[nodiscard]] std::size_t num_slots() const { return num_slots_; }
  /// Returns the distance in slots between a stage and the next.
  [[nodiscard]] std::size_t stride() const { return stride_; }
  /// How many slots behind any slot a table may be touched.
  static constexpr std::size_t kSlotsAhead = 16;

 private:
  const Schedule& schedule_;
  int last_stage_;
  int chunks_per_rank_;
  std::size_t stride_;
  std::size_t num_slots_;
  StageRanks ranks_;
  std::vector<int> chunk_of_;
};

}  // namespace ptdp
