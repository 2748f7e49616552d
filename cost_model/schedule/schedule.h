// A pipeline schedule as data: what every rank does, in which order, and how that is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// What a rank does at a time: forward, whole backward, its input-gradient and weight-gradient
/// halves.
enum class ActionKind : std::uint8_t { kForward, kBackward, kInputGradient, kWeightGradient };
inline constexpr int kNumActionKinds = 4;

struct Action {
  ActionKind kind = ActionKind::kForward;
  int stage = 0;  ///< Virtual stage, in model order.
  int microbatch = 0;
  bool overlaps_next = false;  ///< Runs together with the action after it: "(0F3;3B5)".

  friend bool operator==(const Action&, const Action&) = default;
};

/// Which rank r of p holds a virtual stage s.
enum class StagePlacement {
  kLooped,        ///< s = r, p + r, 2p + r ...
  kV,             ///< s = r and 2p − 1 − r: the model goes down the ranks and comes back.
  kBidirectional  ///< s = r, and p − 1 − r for the second half of the microbatches (DualPipe).
};

/// One ordered list of actions per rank. A rank does them one after the other, each as soon as its
/// input is there; messages are implied by the stages.
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

/// The letter of a kind: F, B, I or W.
[[nodiscard]] char letter_of(ActionKind kind);
/// "2F0": forward of microbatch 0 on stage 2.
[[nodiscard]] std::string to_string(const Action& action);
/// "0F0 0F1 (0F2;3B0)OVERLAP_F_B", as torch.distributed.pipelining writes it.
[[nodiscard]] std::string to_string(std::span<const Action> order);
/// Reads that, OVERLAP_F_B optional. Throws Error at `place` for what is no such list.
[[nodiscard]] std::vector<Action> parse_order(std::string_view text, const std::string& place);

/// The compute-only CSV of torch.distributed.pipelining: a line per rank, a cell per action.
[[nodiscard]] std::string to_csv(const Schedule& schedule);
/// Reads that. Empty cells are bubbles and mean nothing; where weight gradients are apart and no I
/// is there, B is the input gradient, as in torch's zb1p files. Sizes are the smallest that the
/// actions fit, the placement is the one that the fewest contradict. Throws Error at `place`, line
/// and cell. The result is as the file has it: find_fault tells whether it is a schedule.
[[nodiscard]] Schedule parse_schedule_csv(std::string_view text, const std::string& place);
[[nodiscard]] Schedule read_schedule_csv(const std::filesystem::path& path);

}  // namespace ptdp
