// The checks of which find_fault consists, each in a file of its own. All need sizes that
// find_fault has found to be right; each needs those before it to have found nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/schedule/stage_ranks.h"
#include "cost_model/schedule/validator/schedule_fault.h"

namespace ptdp {

/// A set of kinds, one bit each.
using Kinds = std::uint16_t;

[[nodiscard]] constexpr Kinds bit_of(ActionKind kind) {
  return static_cast<Kinds>(1U << static_cast<unsigned>(kind));
}
template <class... Rest>
[[nodiscard]] constexpr Kinds bit_of(ActionKind kind, Rest... rest) {
  return static_cast<Kinds>(bit_of(kind) | bit_of(rest...));
}

inline constexpr Kinds kInputGradientBits =
    bit_of(ActionKind::kBackward, ActionKind::kInputGradient);
inline constexpr Kinds kWeightGradientBits =
    bit_of(ActionKind::kBackward, ActionKind::kWeightGradient);
inline constexpr Kinds kMessageBits =
    bit_of(ActionKind::kSendForward, ActionKind::kReceiveForward, ActionKind::kSendBackward,
           ActionKind::kReceiveBackward, ActionKind::kCopyForward, ActionKind::kCopyBackward);

/// The messages and copies that a stage has for a microbatch once passes added them.
[[nodiscard]] Kinds messages_of(const StageRanks& ranks, int stage, int microbatch);

/// Every action on a stage and microbatch that its rank holds; pairs of two that compute.
[[nodiscard]] std::optional<ScheduleFault> find_place_fault(const Schedule& schedule,
                                                            const StageRanks& ranks);
/// One F, and one B or one I and one W, of every stage and microbatch; every message, if there is
/// any.
[[nodiscard]] std::optional<ScheduleFault> find_count_fault(const Schedule& schedule,
                                                            const StageRanks& ranks);
/// On every rank, what an action needs before it.
[[nodiscard]] std::optional<ScheduleFault> find_order_fault(const Schedule& schedule,
                                                            const StageRanks& ranks);
/// Gathers before the first use and reductions behind the last weight gradient, buckets numbered
/// from 0; TIED, NORM and OPTIMIZER last, once on every rank that has to have them.
[[nodiscard]] std::optional<ScheduleFault> find_step_fault(const Schedule& schedule,
                                                           const StageRanks& ranks);
/// From one rank to another, activations come as they are made, and so do gradients.
[[nodiscard]] std::optional<ScheduleFault> find_fifo_fault(const Schedule& schedule,
                                                           const StageRanks& ranks);

/// Calls `find(place)` for every action, rank by rank, until it finds something.
template <class Find>
[[nodiscard]] std::optional<ScheduleFault> first_of(const Schedule& schedule, const Find& find) {
  for (int rank = 0; rank < schedule.pp; ++rank) {
    for (std::size_t position = 0; position < schedule.orders[rank].size(); ++position) {
      if (auto fault = find(Place{rank, position})) {
        return fault;
      }
    }
  }
  return std::nullopt;
}

/// "rank 1, action 3, 1F2: expected ...", with the grid.
[[nodiscard]] inline ScheduleFault expected_at(const Schedule& schedule, Place place,
                                               const std::string& expected) {
  return fault_at(schedule, place, at(schedule, place) + ": expected " + expected);
}

}  // namespace ptdp
