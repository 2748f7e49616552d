// The queues on which a rank's actions run.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// A queue of a rank: its actions run one after the other, in the order of the rank's list. Lanes
/// run side by side. A lane is a stream on a GPU, and a queue or the rank's own thread on a host.
enum class Lane : std::uint8_t { kCompute, kForwardMessages, kBackwardMessages, kData };
inline constexpr int kNumLanes = 4;
/// Names of the lanes, indexed by Lane.
inline constexpr std::array<std::string_view, kNumLanes> kLaneNames = {
    "compute", "messages forward", "messages backward", "data parallel"};

/// Whether sending a message occupies the compute lane (Megatron-LM's 1F1B; host threads), or
/// messages have lanes of their own. Receives are posted ahead in both modes, into buffers of their
/// own, so no sender waits for its receiver to come by.
enum class MessageMode : std::uint8_t { kBlocking, kOverlapped };

/// Whether the reductions and gathers of data parallelism run beside compute or take turns with it.
enum class DataMode : std::uint8_t {
  kOverlapped,
  kBlocking,
  kBlockingGathers  ///< Gathers take turns with compute; reductions do not.
};

/// Returns the lane on which an action runs. Copies, the norm, the tied embedding and the optimizer
/// take turns with compute.
[[nodiscard]] constexpr Lane lane_of(ActionKind kind, MessageMode messages,
                                     DataMode data = DataMode::kOverlapped) {
  switch (kind) {
    case ActionKind::kSendForward:
    case ActionKind::kReceiveForward:
      return messages == MessageMode::kBlocking ? Lane::kCompute : Lane::kForwardMessages;
    case ActionKind::kSendBackward:
    case ActionKind::kReceiveBackward:
      return messages == MessageMode::kBlocking ? Lane::kCompute : Lane::kBackwardMessages;
    case ActionKind::kReduceGradients:
      return data == DataMode::kBlocking ? Lane::kCompute : Lane::kData;
    case ActionKind::kGatherParameters:
      return data == DataMode::kOverlapped ? Lane::kData : Lane::kCompute;
    default:
      return Lane::kCompute;
  }
}

/// Whether an action takes its turn on a lane: all do but receives. A receive is there when its
/// message is, whatever the rank does meanwhile.
[[nodiscard]] constexpr bool occupies_lane(ActionKind kind) {
  return kind != ActionKind::kReceiveForward && kind != ActionKind::kReceiveBackward;
}

}  // namespace ptdp
