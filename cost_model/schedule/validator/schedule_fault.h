// A fault of a schedule, and the picture that shows it.
#pragma once

#include <cstddef>
#include <string>

#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// What is wrong with a schedule, and where.
struct ScheduleFault {
  std::string what;  ///< One line: the rank, the action, and what was expected.
  /// The orders of the ranks around, a line each, with the offence between > and <; empty where no
  /// action is at fault.
  std::string grid;

  [[nodiscard]] std::string message() const { return grid.empty() ? what : what + '\n' + grid; }
};

/// An action by its place in the lists.
struct Place {
  int rank = 0;
  std::size_t position = 0;
};

/// Ranks above and below the offence that a grid shows.
inline constexpr int kGridRanksAround = 2;

/// "rank 1, action 3, 1F2".
[[nodiscard]] std::string at(const Schedule& schedule, Place place);

/// A line of the grid: the actions of a rank around a position, the one there between > and < where
/// it is marked.
[[nodiscard]] std::string grid_line(const Schedule& schedule, Place place, bool is_marked);

/// A fault with the grid around `place`, every rank about the same position.
[[nodiscard]] ScheduleFault fault_at(const Schedule& schedule, Place place, std::string what);

/// The index of a stage and microbatch in a table of all.
[[nodiscard]] inline std::size_t slot_of(const Schedule& schedule, int stage, int microbatch) {
  return static_cast<std::size_t>(stage) * schedule.num_microbatches + microbatch;
}
[[nodiscard]] inline std::size_t slot_of(const Schedule& schedule, const Action& action) {
  return slot_of(schedule, action.stage, action.microbatch);
}

}  // namespace ptdp
