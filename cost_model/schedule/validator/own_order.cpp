// Checks that every rank has its actions in an order in which it can do them.
#include <algorithm>
#include <array>
#include <string>

#include "cost_model/schedule/validator/validation.h"

namespace ptdp {
namespace {

/// What has to stand before an action on its rank: one of these kinds, of this stage.
struct SameRankNeed {
  Kinds kinds = 0;
  int stage = 0;
};

/// Returns what an action needs before it on its own rank. `messages` are those of its stage and
/// microbatch, or none if passes added none.
std::array<SameRankNeed, 2> needs_of(const Action& action, Kinds messages) {
  const int stage = action.stage;
  const auto message = [&](ActionKind received, ActionKind copied) {
    return SameRankNeed{static_cast<Kinds>(messages & bit_of(received, copied)), stage};
  };
  switch (action.kind) {
    case ActionKind::kForward:
      return {message(ActionKind::kReceiveForward, ActionKind::kCopyForward)};
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
      return {SameRankNeed{bit_of(ActionKind::kForward), stage},
              message(ActionKind::kReceiveBackward, ActionKind::kCopyBackward)};
    case ActionKind::kWeightGradient:
      return {SameRankNeed{bit_of(ActionKind::kInputGradient), stage}};
    case ActionKind::kRecompute:
    case ActionKind::kSendForward:
      return {SameRankNeed{bit_of(ActionKind::kForward), stage}};
    case ActionKind::kSendBackward:
      return {SameRankNeed{kInputGradientBits, stage}};
    case ActionKind::kCopyForward:
      return {SameRankNeed{bit_of(ActionKind::kForward), stage - 1}};
    case ActionKind::kCopyBackward:
      return {SameRankNeed{kInputGradientBits, stage + 1}};
    default:
      return {};
  }
}

std::string name_of(const SameRankNeed& need, int microbatch) {
  std::string names;
  for (int kind = 0; kind < kNumActionKinds; ++kind) {
    const auto one = static_cast<ActionKind>(kind);
    if ((need.kinds & bit_of(one)) != 0) {
      names += (names.empty() ? "" : " or ") + to_string(Action{one, need.stage, microbatch});
    }
  }
  return names;
}

}  // namespace

std::optional<ScheduleFault> find_order_fault(const Schedule& schedule, const StageRanks& ranks) {
  const bool has_messages = !is_compute_only(schedule);
  std::vector<Kinds> seen(
      static_cast<std::size_t>(num_stages(schedule)) * schedule.num_microbatches, Kinds{0});
  return first_of(schedule, [&](Place place) -> std::optional<ScheduleFault> {
    const Action& action = schedule.orders[place.rank][place.position];
    if (action.kind > ActionKind::kCopyBackward) {
      return std::nullopt;
    }
    const Kinds messages =
        has_messages ? messages_of(ranks, action.stage, action.microbatch) : Kinds{0};
    for (const SameRankNeed& need : needs_of(action, messages)) {
      if (need.kinds != 0 &&
          (seen[slot_of(schedule, need.stage, action.microbatch)] & need.kinds) == 0) {
        return expected_at(schedule, place, name_of(need, action.microbatch) + " before it");
      }
    }
    const std::size_t slot = slot_of(schedule, action);
    if (action.kind == ActionKind::kRecompute && (seen[slot] & kInputGradientBits) != 0) {
      return expected_at(schedule, place, "it before the backward pass");
    }
    if (action.overlaps_next) {
      return std::nullopt;  // the first of a pair has done nothing yet when the second starts
    }
    if (place.position > 0) {
      const Action& before = schedule.orders[place.rank][place.position - 1];
      if (before.overlaps_next) {
        seen[slot_of(schedule, before)] |= bit_of(before.kind);
      }
    }
    seen[slot] |= bit_of(action.kind);
    return std::nullopt;
  });
}

}  // namespace ptdp
