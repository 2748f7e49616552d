// A pipeline schedule as data: what every rank does, in which order, and how that is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// What a rank does at a time. Generators emit the first four; passes (communication.h) add the
/// rest.
enum class ActionKind : std::uint8_t {
  kForward,
  kBackward,  ///< Whole: input and weight gradient.
  kInputGradient,
  kWeightGradient,
  kRecompute,  ///< The forward pass again, of what was not kept for the backward pass.
  // Messages between stages on different ranks. The sender's stage is that of the result, the
  // receiver's that which takes it: 1SEND_F0 and 2RECV_F0, 2SEND_B0 and 1RECV_B0.
  kSendForward,
  kReceiveForward,
  kSendBackward,
  kReceiveBackward,
  // The same between stages of one rank, named by the stage that takes the result.
  kCopyForward,
  kCopyBackward,
  // Once per iteration. Buckets stand in the place of microbatches.
  kReduceGradients,   ///< A bucket of a stage's gradients, over the data-parallel group.
  kGatherParameters,  ///< A bucket of a stage's parameters, from the shards of an optimizer step.
  kReduceTied,        ///< The tied embedding's gradient, between the first stage and the last.
  kReduceNorm,        ///< The norm of all gradients, and whether one overflowed: over all ranks.
  kOptimizer
};
inline constexpr int kNumActionKinds = 16;

/// F, B, I, W or R: what computes on one stage and microbatch.
[[nodiscard]] constexpr bool is_compute(ActionKind kind) {
  return kind <= ActionKind::kRecompute;
}

struct Action {
  ActionKind kind = ActionKind::kForward;
  int stage = 0;               ///< Virtual stage, in model order.
  int microbatch = 0;          ///< Of reductions and gathers: the bucket. 0 where there is neither.
  bool overlaps_next = false;  ///< Runs together with the action after it: "(0F3;3B5)".

  friend bool operator==(const Action&, const Action&) = default;
};

/// Which rank r of p holds a virtual stage s.
enum class StagePlacement {
  kLooped,        ///< s = r, p + r, 2p + r ...
  kV,             ///< s = r and 2p − 1 − r: the model goes down the ranks and comes back.
  kBidirectional  ///< s = r, and p − 1 − r for the second half of the microbatches (DualPipe).
};

/// One ordered list of actions per rank. Where it has compute alone, a rank does one after the
/// other, each as soon as its input is there, and messages are implied by the stages; where the
/// passes of communication.h ran, every lane (lane.h) does so with its own.
struct Schedule {
  std::string name;
  int pp = 1;
  int vpp = 1;  ///< Virtual stages per rank; 1 where the placement is bidirectional.
  int num_microbatches = 1;
  StagePlacement placement = StagePlacement::kLooped;
  std::vector<std::vector<Action>> orders = {};

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// Virtual stages of the model: pp·vpp.
[[nodiscard]] int num_stages(const Schedule& schedule);
/// The rank that holds `stage` for `microbatch`.
[[nodiscard]] int rank_of(const Schedule& schedule, int stage, int microbatch);
[[nodiscard]] std::int64_t num_actions(const Schedule& schedule);
/// Whether it has nothing but F, B, I, W and R: the passes of communication.h did not run.
[[nodiscard]] bool is_compute_only(const Schedule& schedule);

/// How orders spell a kind: F, B, I, W, R, SEND_F, RECV_F, SEND_B, RECV_B, COPY_F, COPY_B,
/// REDUCE_GRAD, UNSHARD, TIED, NORM, OPTIMIZER.
[[nodiscard]] std::string_view spelling_of(ActionKind kind);
/// "2F0": forward of microbatch 0 on stage 2. "2UNSHARD1": bucket 1.
[[nodiscard]] std::string to_string(const Action& action);
/// "0F0 0F1 (0F2;3B0)OVERLAP_F_B", as torch.distributed.pipelining writes it.
[[nodiscard]] std::string to_string(std::span<const Action> order);
/// Reads that, OVERLAP_F_B optional. As torch writes them, UNSHARD, REDUCE_GRAD and what stands for
/// a rank may lack their number, BW is B, and RESHARD, which only frees memory, is skipped. Throws
/// Error at `place` for what is no such list.
[[nodiscard]] std::vector<Action> parse_order(std::string_view text, const std::string& place);

/// The CSV of torch.distributed.pipelining: a line per rank, a cell per action; its "compute_only"
/// or, once the passes of communication.h ran, its "compute_comms", of which torch knows no COPY,
/// TIED, NORM and OPTIMIZER.
[[nodiscard]] std::string to_csv(const Schedule& schedule);
/// Reads that. Empty cells are bubbles and mean nothing; where weight gradients are apart and no I
/// is there, B is the input gradient, as in torch's zb1p files. Sizes are the smallest that the
/// compute fits, the placement is the one that the fewest of it contradict. Where there are
/// messages but no COPY, insert_copies adds them: torch implies them. Throws Error at `place`, line
/// and cell. The result is as the file has it: find_fault tells whether it is a schedule.
[[nodiscard]] Schedule parse_schedule_csv(std::string_view text, const std::string& place);
[[nodiscard]] Schedule read_schedule_csv(const std::filesystem::path& path);

}  // namespace ptdp
