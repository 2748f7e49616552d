// A pipeline schedule as data: what every rank does, in which order, and how that is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// What a rank does at a time. Generators emit forward passes, backward passes, and input and
/// weight gradients; the passes of communication.h add the rest.
enum class ActionKind : std::uint8_t {
  kForward,
  kBackward,  ///< A whole backward pass: input and weight gradient.
  kInputGradient,
  kWeightGradient,
  kRecompute,  ///< Repeats the forward pass for what was not kept for the backward pass.
  // Messages between stages on different ranks. A send is named by the stage that makes the result,
  // a receive by the stage that takes it: 1SEND_F0 and 2RECV_F0, 2SEND_B0 and 1RECV_B0.
  kSendForward,
  kReceiveForward,
  kSendBackward,
  kReceiveBackward,
  // Results handed over between stages of one rank, named by the stage that takes the result.
  kCopyForward,
  kCopyBackward,
  // Actions that happen once per iteration. Buckets stand in the place of microbatches.
  kReduceGradients,  ///< Reduces a bucket of a stage's gradients over the data-parallel group.
  /// Gathers a bucket of a stage's parameters, from the shards of an optimizer step.
  kGatherParameters,
  kReduceTied,  ///< Reduces the tied embedding's gradient between the first stage and the last.
  kReduceNorm,  ///< Reduces the norm of all gradients, and whether one overflowed, over all ranks.
  /// Updates the rank's parameters.
  kOptimizer
};
inline constexpr int kNumActionKinds = 16;

/// Whether an action of this kind computes on one stage and microbatch: F, B, I, W or R.
[[nodiscard]] constexpr bool is_compute(ActionKind kind) {
  return kind <= ActionKind::kRecompute;
}

/// One entry of a rank's list.
struct Action {
  ActionKind kind = ActionKind::kForward;
  int stage = 0;  ///< Virtual stage, in model order.
  /// Microbatch, or the bucket of a reduction or gather; 0 for an action that has neither.
  int microbatch = 0;
  /// Whether this action runs together with the next in the list: "(0F3;3B5)".
  bool overlaps_next = false;

  friend bool operator==(const Action&, const Action&) = default;
};

/// Which rank r of p pipeline ranks holds a virtual stage s.
enum class StagePlacement {
  kLooped,  ///< Rank r holds s = r, p + r, 2p + r ...
  kV,  ///< Rank r holds s = r and 2p − 1 − r: the model goes down the ranks and comes back.
  /// Rank r holds s = r, and p − 1 − r for the second half of the microbatches (DualPipe).
  kBidirectional
};

/// A pipeline schedule: one ordered list of actions per rank. With compute alone, a rank does one
/// action after the other, each as soon as its input is there, and the stages imply the messages.
/// After the passes of communication.h, every lane (lane.h) does so with its own actions.
struct Schedule {
  std::string name;
  int pp = 1;   ///< Pipeline ranks.
  int vpp = 1;  ///< Virtual stages per rank; 1 for a bidirectional placement.
  int num_microbatches = 1;
  StagePlacement placement = StagePlacement::kLooped;
  /// Each rank's actions in order, by pipeline rank.
  std::vector<std::vector<Action>> orders = {};

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// Returns the number of virtual stages of the model: pp·vpp.
[[nodiscard]] int num_stages(const Schedule& schedule);
/// Returns the pipeline rank that holds `stage` for `microbatch`.
[[nodiscard]] int rank_of(const Schedule& schedule, int stage, int microbatch);
/// Returns the number of actions of all ranks.
[[nodiscard]] std::int64_t num_actions(const Schedule& schedule);
/// Whether a schedule has nothing but F, B, I, W and R: the passes of communication.h did not run.
[[nodiscard]] bool is_compute_only(const Schedule& schedule);

/// Returns how orders spell a kind: F, B, I, W, R, SEND_F, RECV_F, SEND_B, RECV_B, COPY_F, COPY_B,
/// REDUCE_GRAD, UNSHARD, TIED, NORM or OPTIMIZER.
[[nodiscard]] std::string_view spelling_of(ActionKind kind);
/// Returns an action as text: "2F0" is the forward pass of microbatch 0 on stage 2, "2UNSHARD1"
/// gathers bucket 1 of stage 2.
[[nodiscard]] std::string to_string(const Action& action);
/// Returns a list of actions, such as "0F0 0F1 (0F2;3B0)OVERLAP_F_B". The spelling is that of
/// torch.distributed.pipelining.
[[nodiscard]] std::string to_string(std::span<const Action> order);
/// Reads a list of actions that to_string() wrote; OVERLAP_F_B is optional. Files of torch are read
/// too: UNSHARD, REDUCE_GRAD and the actions of a whole rank may lack their number, BW is B, and
/// RESHARD, which only frees memory, is skipped. Throws Error at `place` for any other text.
[[nodiscard]] std::vector<Action> parse_order(std::string_view text, const std::string& place);

/// Returns a schedule as the CSV of torch.distributed.pipelining: a line per rank, a cell per
/// action. It is torch's "compute_only" form, or "compute_comms" once the passes of communication.h
/// ran. torch knows no COPY, TIED, NORM and OPTIMIZER.
[[nodiscard]] std::string to_csv(const Schedule& schedule);
/// Reads a schedule from a CSV of torch.distributed.pipelining, as to_csv() writes it. Empty cells
/// are bubbles and mean nothing. B is read as the input gradient in a file that has W but no I,
/// such as torch's zb1p files.
///
/// Sizes are the smallest that the compute actions fit. The placement is the one that the fewest of
/// them contradict. insert_copies() adds COPY to a file with messages but without COPY, for torch
/// implies them.
///
/// Throws Error at `place`, line and cell. The result is as the file has it: find_fault() tells
/// whether it is a schedule.
[[nodiscard]] Schedule parse_schedule_csv(std::string_view text, const std::string& place);
/// Reads the file at `path` with parse_schedule_csv(). Throws Error when the file cannot be read,
/// or has more than 256 MiB.
[[nodiscard]] Schedule read_schedule_csv(const std::filesystem::path& path);

}  // namespace ptdp
