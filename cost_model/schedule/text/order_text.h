// How single actions are read; parse_order and the CSV share it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// One rank's list while it is read.
struct ParsedOrder {
  std::vector<Action> actions = {};
  /// Where the text has BW, by which torch called a whole backward pass while its B was the input
  /// gradient. Ascending.
  std::vector<std::size_t> whole_backwards = {};
};

/// Appends the action or the pair that `token` spells. RESHARD, which only frees memory, is
/// skipped. Throws Error at `place` for what is none.
void append_parsed(ParsedOrder& order, std::string_view token, const std::string& place);

/// The orders' text with `separator` between actions, an overlapped pair in one piece.
[[nodiscard]] std::string joined(std::span<const Action> order, char separator);

}  // namespace ptdp
