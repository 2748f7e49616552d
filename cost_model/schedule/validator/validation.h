// The checks of which find_fault() consists, each in a file of its own. All need sizes that
// find_fault() has found to be right. Each needs the checks before it to have found nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/schedule/stage_ranks.h"
#include "cost_model/schedule/validator/schedule_fault.h"

namespace ptdp {

/// A set of kinds of actions, one bit each.
using Kinds = std::uint16_t;

/// Returns the set of one kind.
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

/// Returns the kinds of messages and copies that a stage has for a microbatch once passes added
/// them.
[[nodiscard]] Kinds messages_of(const StageRanks& ranks, int stage, int microbatch);

/// Finds an action on a stage or microbatch that its rank does not hold, or a pair that is not of
/// two actions that compute.
[[nodiscard]] std::optional<ScheduleFault> find_place_fault(const Schedule& schedule,
                                                            const StageRanks& ranks);
/// Finds a stage and microbatch that has other than one F, and one B or one I and one W. In a
/// schedule with any message it also finds one that lacks a message or has it twice.
[[nodiscard]] std::optional<ScheduleFault> find_count_fault(const Schedule& schedule,
                                                            const StageRanks& ranks);
/// Finds an action that stands before something it needs on its own rank.
[[nodiscard]] std::optional<ScheduleFault> find_order_fault(const Schedule& schedule,
                                                            const StageRanks& ranks);
/// Finds a misplaced action of the step. Gathers come before the first use and reductions behind
/// the last weight gradient, buckets numbered from 0. TIED, NORM and OPTIMIZER come last, once on
/// every rank that has to have them.
[[nodiscard]] std::optional<ScheduleFault> find_step_fault(const Schedule& schedule,
                                                           const StageRanks& ranks);
/// Finds activations or gradients that one rank does not send to another in the order in which they
/// are made.
[[nodiscard]] std::optional<ScheduleFault> find_fifo_fault(const Schedule& schedule,
                                                           const StageRanks& ranks);

/// Calls `find(place)` for every action, rank by rank, until it returns a fault; returns that
/// fault.
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

/// Returns a fault with the grid, such as "rank 1, action 3, 1F2: expected ...".
[[nodiscard]] inline ScheduleFault expected_at(const Schedule& schedule, Place place,
                                               const std::string& expected) {
  return fault_at(schedule, place, at(schedule, place) + ": expected " + expected);
}

}  // namespace ptdp
