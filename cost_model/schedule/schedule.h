// A pipeline schedule as data: the actions of every rank in order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ptdp {

enum class ActionKind : std::uint8_t { kForward, kBackward, kInputGradient, kWeightGradient };

struct Action {
  ActionKind kind = ActionKind::kForward;
  int stage = 0;  ///< Virtual stage, in model order.
  int microbatch = 0;
  bool overlaps_next = false;  ///< Runs together with the action after it: "(0F3;3B5)".
};

enum class StagePlacement {
  kLooped,        ///< Stage s on rank s % p.
  kV,             ///< Rank r holds stages r and 2p-1-r.
  kBidirectional  ///< Stage r, and p-1-r for the other half of the microbatches: DualPipe.
};

struct Schedule {
  std::string name;
  int pp = 1;
  int vpp = 1;
  int num_microbatches = 1;
  StagePlacement placement = StagePlacement::kLooped;
  std::vector<std::vector<Action>> orders;
};

}  // namespace ptdp
