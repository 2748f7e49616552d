#include "cost_model/schedule/validator/deadlock.h"

#include <algorithm>

namespace ptdp {
namespace {

/// Returns the action whose result `action` takes: of another stage, or the forward pass of the
/// last stage. Returns nullopt if it takes none.
std::optional<Action> input_of(const Schedule& schedule, const Action& action) {
  switch (action.kind) {
    case ActionKind::kForward:
      return action.stage == 0
                 ? std::nullopt
                 : std::optional(Action{ActionKind::kForward, action.stage - 1, action.microbatch});
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
      return action.stage + 1 == num_stages(schedule)
                 ? Action{ActionKind::kForward, action.stage, action.microbatch}
                 : Action{ActionKind::kInputGradient, action.stage + 1, action.microbatch};
    default:
      return std::nullopt;
  }
}

/// Walks all lists at once, each rank as far as it gets, to find a deadlock.
class DeadlockWalk {
 public:
  explicit DeadlockWalk(const Schedule& schedule)
      : schedule_(schedule),
        done_(2 * slot_of(schedule, num_stages(schedule), 0), false),
        waiting_(done_.size(), -1),
        positions_(schedule.pp, 0) {}

  std::optional<ScheduleFault> find() {
    for (int rank = schedule_.pp - 1; rank >= 0; --rank) {
      runnable_.push_back(rank);
    }
    while (!runnable_.empty()) {
      const int rank = runnable_.back();
      runnable_.pop_back();
      while (positions_[rank] < schedule_.orders[rank].size() && step(rank)) {
      }
    }
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      if (positions_[rank] < schedule_.orders[rank].size()) {
        return deadlock_of(rank);
      }
    }
    return std::nullopt;
  }

 private:
  /// Returns the index, in tables of results, of the activations or gradients that an action makes.
  [[nodiscard]] std::size_t result_of(const Action& action) const {
    return 2 * slot_of(schedule_, action.stage, action.microbatch) +
           (action.kind == ActionKind::kForward ? 0 : 1);
  }

  /// Returns the action whose result this action lacks, if any.
  [[nodiscard]] std::optional<Action> missing_input(const Action& action) const {
    const auto input = input_of(schedule_, action);
    if (!input) {
      return std::nullopt;
    }
    return done_[result_of(*input)] ? std::nullopt : input;
  }

  /// Does the next action or pair of the rank; if its input is missing, notes what it waits for and
  /// returns false.
  bool step(int rank) {
    const std::vector<Action>& order = schedule_.orders[rank];
    const std::size_t begin = positions_[rank];
    const std::size_t end = begin + (order[begin].overlaps_next ? 2 : 1);
    for (std::size_t i = begin; i < end; ++i) {
      if (const auto input = missing_input(order[i])) {
        waiting_[result_of(*input)] = rank;
        return false;
      }
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (order[i].kind == ActionKind::kWeightGradient || order[i].kind == ActionKind::kRecompute) {
        continue;  // no other rank waits for it
      }
      const std::size_t result = result_of(order[i]);
      done_[result] = true;
      if (waiting_[result] >= 0) {
        runnable_.push_back(waiting_[result]);
        waiting_[result] = -1;
      }
    }
    positions_[rank] = end;
    return true;
  }

  /// Returns the fault of a stuck rank, with every rank around it at the action where it stands.
  [[nodiscard]] ScheduleFault deadlock_of(int rank) const {
    const std::vector<Action>& order = schedule_.orders[rank];
    Place place{rank, positions_[rank]};
    if (!missing_input(order[place.position])) {
      ++place.position;  // the second of a pair
    }
    const auto input = missing_input(order[place.position]);
    ScheduleFault fault{.what = "deadlock: " + at(schedule_, place) + ": expected " +
                                (input ? name_of_input(*input) : std::string("its input")) +
                                " first, which waits in turn"};
    const int first = std::max(rank - kGridRanksAround, 0);
    const int last = std::min(rank + kGridRanksAround, schedule_.pp - 1);
    for (int other = first; other <= last; ++other) {
      const bool is_stuck = positions_[other] < schedule_.orders[other].size();
      fault.grid += grid_line(
          schedule_, {other, other == rank ? place.position : positions_[other]}, is_stuck);
    }
    return fault;
  }

  [[nodiscard]] static std::string name_of_input(Action input) {
    std::string name = to_string(input);
    if (input.kind == ActionKind::kInputGradient) {
      input.kind = ActionKind::kBackward;
      name += " or " + to_string(input);
    }
    return name;
  }

  const Schedule& schedule_;
  std::vector<bool> done_;    ///< Whether each result is made.
  std::vector<int> waiting_;  ///< The rank that waits for each result, or -1.
  std::vector<std::size_t> positions_;
  std::vector<int> runnable_;
};

}  // namespace

std::optional<ScheduleFault> find_deadlock(const Schedule& schedule) {
  return DeadlockWalk(schedule).find();
}

}  // namespace ptdp
