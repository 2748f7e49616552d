#include "cost_model/schedule/validator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "cost_model/schedule/deadlock.h"
#include "cost_model/schedule/schedule_fault.h"

namespace ptdp {
namespace {

using Orders = std::vector<std::vector<Action>>;

/// What has been met of a stage and microbatch, one bit per kind.
using Seen = std::uint8_t;

Seen bit_of(ActionKind kind) {
  return static_cast<Seen>(1U << static_cast<unsigned>(kind));
}

constexpr Seen kForwardBit = 1;
constexpr Seen kBackwardBit = 2;
constexpr Seen kInputBit = 4;
constexpr Seen kWeightBit = 8;

std::optional<ScheduleFault> find_size_fault(const Schedule& schedule) {
  const auto fault = [&](const std::string& size, const std::string& expected, std::int64_t found) {
    return ScheduleFault{.what =
                             size + ": expected " + expected + ", got " + std::to_string(found)};
  };
  if (schedule.pp < 1) {
    return fault("pp", "a positive number of ranks", schedule.pp);
  }
  if (schedule.vpp < 1) {
    return fault("vpp", "a positive number of stages per rank", schedule.vpp);
  }
  if (schedule.num_microbatches < 1) {
    return fault("microbatches", "a positive number", schedule.num_microbatches);
  }
  if (schedule.placement == StagePlacement::kV && schedule.vpp != 2) {
    return fault("vpp", "2 stages per rank in a V", schedule.vpp);
  }
  if (schedule.placement == StagePlacement::kBidirectional && schedule.vpp != 1) {
    return fault("vpp", "1 stage per rank and direction", schedule.vpp);
  }
  if (std::ssize(schedule.orders) != schedule.pp) {
    return fault("orders", "one for each of " + std::to_string(schedule.pp) + " ranks",
                 std::ssize(schedule.orders));
  }
  return std::nullopt;
}

std::optional<ScheduleFault> find_place_fault(const Schedule& schedule, Place place) {
  const std::vector<Action>& order = schedule.orders[place.rank];
  const Action& action = order[place.position];
  const auto fault = [&](const std::string& expected) {
    return fault_at(schedule, place, at(schedule, place) + ": expected " + expected);
  };
  if (action.stage < 0 || action.stage >= num_stages(schedule)) {
    return fault("a stage from 0 to " + std::to_string(num_stages(schedule) - 1));
  }
  if (action.microbatch < 0 || action.microbatch >= schedule.num_microbatches) {
    return fault("a microbatch from 0 to " + std::to_string(schedule.num_microbatches - 1));
  }
  if (const int holder = rank_of(schedule, action.stage, action.microbatch); holder != place.rank) {
    return fault("it on rank " + std::to_string(holder) + ", which holds the stage");
  }
  if (action.overlaps_next &&
      (place.position + 1 == order.size() || order[place.position + 1].overlaps_next)) {
    return fault("one action behind it to overlap with");
  }
  return std::nullopt;
}

/// Calls `find(place)` for every action, rank by rank, until it finds something.
template <class Find>
std::optional<ScheduleFault> first_of(const Orders& orders, const Find& find) {
  for (int rank = 0; rank < static_cast<int>(orders.size()); ++rank) {
    for (std::size_t position = 0; position < orders[rank].size(); ++position) {
      if (auto fault = find(Place{rank, position})) {
        return fault;
      }
    }
  }
  return std::nullopt;
}

/// A missing action, shown behind the action of its kind and stage that precedes it.
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

/// Every stage and microbatch has an action; for lists that are too short for the slots to be worth
/// a table. The first gap in the sorted forward passes is missing.
std::optional<ScheduleFault> find_gap(const Schedule& schedule) {
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

/// An action that is there twice, or beside its halves; notes all in `seen`.
std::optional<ScheduleFault> find_doubled(const Schedule& schedule, std::vector<Seen>& seen) {
  return first_of(schedule.orders, [&](Place place) -> std::optional<ScheduleFault> {
    const Action& action = schedule.orders[place.rank][place.position];
    Seen& met = seen[slot_of(schedule, action)];
    const Seen bit = bit_of(action.kind);
    if ((met & bit) != 0) {
      return fault_at(schedule, place,
                      at(schedule, place) + ": expected once, but it is there twice");
    }
    met |= bit;
    if ((met & kBackwardBit) != 0 && (met & (kInputBit | kWeightBit)) != 0) {
      return fault_at(
          schedule, place,
          at(schedule, place) + ": expected a whole backward pass or its halves, not both");
    }
    return std::nullopt;
  });
}

/// What a stage and microbatch lacks of which `met` is there, as a message names it; empty if
/// nothing.
std::string lacking(Action action, Seen met) {
  const auto name_as = [&](ActionKind kind) {
    action.kind = kind;
    return to_string(action);
  };
  if ((met & kForwardBit) == 0) {
    return name_as(ActionKind::kForward);
  }
  if (met == kForwardBit) {
    return name_as(ActionKind::kBackward) + " (or " + name_as(ActionKind::kInputGradient) +
           " and " + name_as(ActionKind::kWeightGradient) + ")";
  }
  if ((met & (kBackwardBit | kInputBit)) == 0) {
    return name_as(ActionKind::kInputGradient);
  }
  if ((met & (kBackwardBit | kWeightBit)) == 0) {
    return name_as(ActionKind::kWeightGradient);
  }
  return "";
}

std::optional<ScheduleFault> find_count_fault(const Schedule& schedule) {
  const std::int64_t slots = std::int64_t{num_stages(schedule)} * schedule.num_microbatches;
  if (slots > num_actions(schedule)) {
    return find_gap(schedule);
  }
  std::vector<Seen> seen(static_cast<std::size_t>(slots), Seen{0});
  if (auto doubled = find_doubled(schedule, seen)) {
    return doubled;
  }
  for (int stage = 0; stage < num_stages(schedule); ++stage) {
    for (int microbatch = 0; microbatch < schedule.num_microbatches; ++microbatch) {
      const Action action{ActionKind::kForward, stage, microbatch};
      const std::string name = lacking(action, seen[slot_of(schedule, action)]);
      if (!name.empty()) {
        return missing(schedule, action, name);
      }
    }
  }
  return std::nullopt;
}

/// What must precede an action on its own rank.
std::optional<ScheduleFault> find_order_fault(const Schedule& schedule) {
  std::vector<Seen> seen(static_cast<std::size_t>(num_stages(schedule)) * schedule.num_microbatches,
                         Seen{0});
  return first_of(schedule.orders, [&](Place place) -> std::optional<ScheduleFault> {
    const Action& action = schedule.orders[place.rank][place.position];
    Seen& met = seen[slot_of(schedule, action)];
    const Seen bit = bit_of(action.kind);
    const Seen needed = bit == kForwardBit ? Seen{0} : bit == kWeightBit ? kInputBit : kForwardBit;
    if ((met & needed) != needed) {
      Action before = action;
      before.kind = needed == kInputBit ? ActionKind::kInputGradient : ActionKind::kForward;
      return fault_at(schedule, place,
                      at(schedule, place) + ": expected " + to_string(before) + " before it");
    }
    met |= bit;
    return std::nullopt;
  });
}

/// Activations (`kind` forward) or gradients of one direction, in the order made and used.
std::optional<ScheduleFault> find_fifo_fault(const Schedule& schedule, ActionKind kind) {
  const auto is_of_kind = [&](const Action& action) {
    return kind == ActionKind::kForward
               ? action.kind == ActionKind::kForward
               : action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
  };
  const int step = kind == ActionKind::kForward ? 1 : -1;
  // Per slot: the how-manieth message it is from its rank to the rank that takes it.
  std::vector<std::int32_t> number(
      static_cast<std::size_t>(num_stages(schedule)) * schedule.num_microbatches, -1);
  std::map<int, std::int32_t> count;  // by the other rank, of which there are few
  for (int rank = 0; rank < schedule.pp; ++rank) {
    count.clear();
    for (const Action& action : schedule.orders[rank]) {
      const int next = action.stage + step;
      if (is_of_kind(action) && next >= 0 && next < num_stages(schedule)) {
        number[slot_of(schedule, action)] = count[rank_of(schedule, next, action.microbatch)]++;
      }
    }
  }
  for (int rank = 0; rank < schedule.pp; ++rank) {
    count.clear();
    const std::vector<Action>& order = schedule.orders[rank];
    for (std::size_t position = 0; position < order.size(); ++position) {
      const Action& action = order[position];
      const int previous = action.stage - step;
      if (!is_of_kind(action) || previous < 0 || previous >= num_stages(schedule)) {
        continue;
      }
      const int sender = rank_of(schedule, previous, action.microbatch);
      if (number[slot_of(schedule, previous, action.microbatch)] != count[sender]++ &&
          sender != rank) {
        const Place place{rank, position};
        return fault_at(schedule, place,
                        at(schedule, place) + ": expected the results of rank " +
                            std::to_string(sender) + " in the order in which it makes them");
      }
    }
  }
  return std::nullopt;
}

std::optional<ScheduleFault> find_memory_fault(const Schedule& schedule,
                                               std::span<const int> limits) {
  if (limits.empty()) {
    return std::nullopt;
  }
  std::vector<int> held(schedule.pp, 0);
  return first_of(schedule.orders, [&](Place place) -> std::optional<ScheduleFault> {
    const Action& action = schedule.orders[place.rank][place.position];
    int& live = held[place.rank];
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) {
      --live;
    } else if (action.kind == ActionKind::kForward && ++live > limits[place.rank]) {
      return fault_at(schedule, place,
                      at(schedule, place) + ": expected at most " +
                          std::to_string(limits[place.rank]) + " activations at a time, got " +
                          std::to_string(live));
    }
    return std::nullopt;
  });
}

}  // namespace

std::optional<ScheduleFault> find_fault(const Schedule& schedule,
                                        std::span<const int> peak_limits) {
  if (auto fault = find_size_fault(schedule)) {
    return fault;
  }
  if (auto fault = first_of(schedule.orders,
                            [&](Place place) { return find_place_fault(schedule, place); })) {
    return fault;
  }
  if (auto fault = find_count_fault(schedule)) {
    return fault;
  }
  if (auto fault = find_order_fault(schedule)) {
    return fault;
  }
  if (auto fault = find_deadlock(schedule)) {
    return fault;
  }
  for (const ActionKind kind : {ActionKind::kForward, ActionKind::kInputGradient}) {
    if (auto fault = find_fifo_fault(schedule, kind)) {
      return fault;
    }
  }
  return find_memory_fault(schedule, peak_limits);
}

std::vector<int> peak_activations(const Schedule& schedule) {
  std::vector<int> peaks;
  for (const std::vector<Action>& order : schedule.orders) {
    int live = 0;
    int peak = 0;
    for (const Action& action : order) {
      if (action.kind == ActionKind::kForward) {
        peak = std::max(peak, ++live);
      } else if (action.kind != ActionKind::kInputGradient) {
        --live;
      }
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace ptdp
