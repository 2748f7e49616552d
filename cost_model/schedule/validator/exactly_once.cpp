// Checks that every action is there, once, and on its rank.
#include <algorithm>
#include <string>

#include "cost_model/schedule/validator/validation.h"

namespace ptdp {
namespace {

/// Returns what was expected in place of a collective or an action of the step's end that does not
/// belong on its rank; nullopt if it does.
std::optional<std::string> expected_of_step(const Schedule& schedule, const StageRanks& ranks,
                                            int rank, const Action& action) {
  const int last_stage = num_stages(schedule) - 1;
  const int first_rank = ranks.of(0, 0);
  const int last_rank = ranks.of(last_stage, 0);
  switch (action.kind) {
    case ActionKind::kReduceGradients:
    case ActionKind::kGatherParameters:
      if (ranks.of(action.stage, 0) != rank &&
          ranks.of(action.stage, schedule.num_microbatches - 1) != rank) {
        return "it on rank " + std::to_string(ranks.of(action.stage, 0)) +
               ", which holds the stage";
      }
      return std::nullopt;
    case ActionKind::kReduceTied:
      if (first_rank == last_rank || action.microbatch != 0 ||
          (rank != first_rank && rank != last_rank) ||
          action.stage != (rank == first_rank ? 0 : last_stage)) {
        return first_rank == last_rank
                   ? "none: one rank holds the first and the last stage"
                   : "0TIED0 on rank " + std::to_string(first_rank) + " and " +
                         std::to_string(last_stage) + "TIED0 on rank " + std::to_string(last_rank);
      }
      return std::nullopt;
    default:
      if (action.stage != rank || action.microbatch != 0) {
        return to_string(Action{action.kind, rank}) + " on this rank";
      }
      return std::nullopt;
  }
}

/// Returns what was expected in the place of an action that does not belong there; nullopt if it
/// does.
std::optional<std::string> expected_in_place(const Schedule& schedule, const StageRanks& ranks,
                                             Place place) {
  const std::vector<Action>& order = schedule.orders[place.rank];
  const Action& action = order[place.position];
  if (action.stage < 0 || action.stage >= num_stages(schedule)) {
    return "a stage from 0 to " + std::to_string(num_stages(schedule) - 1);
  }
  if (action.overlaps_next &&
      (place.position + 1 == order.size() || order[place.position + 1].overlaps_next)) {
    return "one action behind it to overlap with";
  }
  if (action.overlaps_next &&
      !(is_compute(action.kind) && is_compute(order[place.position + 1].kind))) {
    return "actions that compute in a pair";
  }
  if (action.kind > ActionKind::kCopyBackward) {
    return expected_of_step(schedule, ranks, place.rank, action);
  }
  if (action.microbatch < 0 || action.microbatch >= schedule.num_microbatches) {
    return "a microbatch from 0 to " + std::to_string(schedule.num_microbatches - 1);
  }
  if (const int holder = ranks.of(action.stage, action.microbatch); holder != place.rank) {
    return "it on rank " + std::to_string(holder) + ", which holds the stage";
  }
  if (!is_compute(action.kind) &&
      (messages_of(ranks, action.stage, action.microbatch) & bit_of(action.kind)) == 0) {
    return action.kind < ActionKind::kCopyForward
               ? "messages between neighbouring stages on different ranks alone"
               : "copies between neighbouring stages of one rank alone";
  }
  return std::nullopt;
}

/// Returns the fault of a missing action, shown behind the action of its stage that precedes it.
ScheduleFault missing(const Schedule& schedule, const Action& action, const std::string& name) {
  const int rank = rank_of(schedule, action.stage, action.microbatch);
  const std::vector<Action>& order = schedule.orders[rank];
  std::size_t position = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i].stage == action.stage && order[i].microbatch == action.microbatch - 1) {
      position = i;
    }
  }
  return fault_at(schedule, {rank, position},
                  "rank " + std::to_string(rank) + ": " + name + " is missing; expected once");
}

/// Returns the fault of the first forward pass that is missing. Used for lists that are too short
/// to give every stage and microbatch an action, and so not worth a table: a gap in the sorted
/// forward passes shows it.
ScheduleFault find_gap(const Schedule& schedule) {
  std::vector<std::size_t> slots;
  for (const std::vector<Action>& order : schedule.orders) {
    for (const Action& action : order) {
      if (action.kind == ActionKind::kForward) {
        slots.push_back(slot_of(schedule, action));
      }
    }
  }
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  std::size_t gap = 0;
  while (gap < slots.size() && slots[gap] == gap) {
    ++gap;
  }
  const Action action{.stage = static_cast<int>(gap / schedule.num_microbatches),
                      .microbatch = static_cast<int>(gap % schedule.num_microbatches)};
  return missing(schedule, action, to_string(action));
}

/// Finds an action that is there twice, or a whole backward pass beside its halves. Notes all
/// actions in `seen`.
std::optional<ScheduleFault> find_doubled(const Schedule& schedule, std::vector<Kinds>& seen) {
  return first_of(schedule, [&](Place place) -> std::optional<ScheduleFault> {
    const Action& action = schedule.orders[place.rank][place.position];
    if (action.kind > ActionKind::kCopyBackward) {
      return std::nullopt;
    }
    Kinds& met = seen[slot_of(schedule, action)];
    if ((met & bit_of(action.kind)) != 0) {
      return expected_at(schedule, place, "once, but it is there twice");
    }
    met |= bit_of(action.kind);
    if ((met & bit_of(ActionKind::kBackward)) != 0 &&
        (met & bit_of(ActionKind::kInputGradient, ActionKind::kWeightGradient)) != 0) {
      return expected_at(schedule, place, "a whole backward pass or its halves, not both");
    }
    return std::nullopt;
  });
}

/// Returns the action that a stage and microbatch lacks, as a message names it, given that the
/// kinds `met` are there. Empty if it lacks nothing.
std::string lacking(Action action, Kinds met, Kinds messages) {
  const auto name_as = [&](ActionKind kind) {
    action.kind = kind;
    return to_string(action);
  };
  if ((met & bit_of(ActionKind::kForward)) == 0) {
    return name_as(ActionKind::kForward);
  }
  if ((met & (kInputGradientBits | kWeightGradientBits)) == 0) {
    return name_as(ActionKind::kBackward) + " (or " + name_as(ActionKind::kInputGradient) +
           " and " + name_as(ActionKind::kWeightGradient) + ")";
  }
  if ((met & kInputGradientBits) == 0) {
    return name_as(ActionKind::kInputGradient);
  }
  if ((met & kWeightGradientBits) == 0) {
    return name_as(ActionKind::kWeightGradient);
  }
  for (int kind = 0; kind < kNumActionKinds; ++kind) {
    const auto message = static_cast<ActionKind>(kind);
    if ((messages & ~met & bit_of(message)) != 0) {
      return name_as(message);
    }
  }
  return "";
}

}  // namespace

Kinds messages_of(const StageRanks& ranks, int stage, int microbatch) {
  const int rank = ranks.of(stage, microbatch);
  Kinds kinds = 0;
  if (stage > 0) {
    kinds |= ranks.of(stage - 1, microbatch) == rank
                 ? bit_of(ActionKind::kCopyForward)
                 : bit_of(ActionKind::kReceiveForward, ActionKind::kSendBackward);
  }
  if (stage + 1 < ranks.num_stages()) {
    kinds |= ranks.of(stage + 1, microbatch) == rank
                 ? bit_of(ActionKind::kCopyBackward)
                 : bit_of(ActionKind::kSendForward, ActionKind::kReceiveBackward);
  }
  return kinds;
}

std::optional<ScheduleFault> find_place_fault(const Schedule& schedule, const StageRanks& ranks) {
  return first_of(schedule, [&](Place place) -> std::optional<ScheduleFault> {
    if (const auto expected = expected_in_place(schedule, ranks, place)) {
      return expected_at(schedule, place, *expected);
    }
    return std::nullopt;
  });
}

std::optional<ScheduleFault> find_count_fault(const Schedule& schedule, const StageRanks& ranks) {
  const std::int64_t slots = std::int64_t{num_stages(schedule)} * schedule.num_microbatches;
  if (slots > num_actions(schedule)) {
    return find_gap(schedule);
  }
  std::vector<Kinds> seen(static_cast<std::size_t>(slots), Kinds{0});
  if (auto doubled = find_doubled(schedule, seen)) {
    return doubled;
  }
  const bool has_messages = !is_compute_only(schedule);
  for (int stage = 0; stage < num_stages(schedule); ++stage) {
    for (int microbatch = 0; microbatch < schedule.num_microbatches; ++microbatch) {
      const Action action{ActionKind::kForward, stage, microbatch};
      const Kinds messages = has_messages ? messages_of(ranks, stage, microbatch) : Kinds{0};
      const std::string name = lacking(action, seen[slot_of(schedule, action)], messages);
      if (!name.empty()) {
        return missing(schedule, action, name);
      }
    }
  }
  return std::nullopt;
}

}  // namespace ptdp
