// A fault of a schedule, and the picture that shows it.
#pragma once

#include <cstddef>
#include <string>

#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// What is wrong with a schedule, and where.
struct ScheduleFault {
  std::string what;  ///< One line: the rank, the action, and what was expected.
  /// Orders of the ranks around the fault, a line each, with the offense between > and <. Empty
  /// when no action is at fault.
  std::string grid;

  /// Returns `what`, with the grid below it if there is one.
  [[nodiscard]] std::string message() const { return grid.empty() ? what : what + '\n' + grid; }
};

/// An action by its place: a pipeline rank and a position in the rank's list.
struct Place {
  int rank = 0;
  std::size_t position = 0;
};

/// Ranks that a grid shows above and below the offense.
inline constexpr int kGridRanksAround = 2;

/// Returns a place and its action as text: "rank 1, action 3, 1F2".
[[nodiscard]] std::string at(const Schedule& schedule, Place place);

/// Returns a line of the grid: the actions of a rank around a position. The action there stands
/// between > and < if it is marked.
[[nodiscard]] std::string grid_line(const Schedule& schedule, Place place, bool is_marked);

/// Returns a fault with the grid around `place`, every rank about the same position.
[[nodiscard]] ScheduleFault fault_at(const Schedule& schedule, Place place, std::string what);

/// Returns the index of a stage and microbatch in a table of all stages and microbatches.
[[nodiscard]] inline std::size_t slot_of(const Schedule& schedule, int stage, int microbatch) {
  return static_cast<std::size_t>(stage) * schedule.num_microbatches + microbatch;
}
/// Returns the index of an action's stage and microbatch in a table of all stages and microbatches.
[[nodiscard]] inline std::size_t slot_of(const Schedule& schedule, const Action& action) {
  return slot_of(schedule, action.stage, action.microbatch);
}

}  // namespace ptdp
