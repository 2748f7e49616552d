// How single actions are read from text; parse_order() and the CSV reader share it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// One rank's list of actions while it is read.
struct ParsedOrder {
  std::vector<Action> actions = {};
  /// Positions in `actions` that the text spells BW, ascending. torch called a whole backward pass
  /// BW while its B was the input gradient.
  std::vector<std::size_t> whole_backwards = {};
};

/// Appends the action or the pair that `token` spells. RESHARD, which only frees memory, is
/// skipped. Throws Error at `place` for any other text.
void append_parsed(ParsedOrder& order, std::string_view token, const std::string& place);

/// Returns the text of a list of actions with `separator` between them, an overlapped pair in one
/// piece.
[[nodiscard]] std::string joined(std::span<const Action> order, char separator);

}  // namespace ptdp
