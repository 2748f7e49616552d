// Parts of a script that may or may not run: `if`, `case` and loops.
#pragma once

#include <functional>
#include <initializer_list>
#include <string_view>

#include "planner/import/shell/shell_state.h"
#include "planner/import/shell/shell_test.h"

namespace ptdp {

/// Words that end a list of commands.
using ShellListEnds = std::initializer_list<std::string_view>;
/// Follows commands up to one of the words, which stays; returns how the last one ends.
using ShellListFollower = std::function<ShellTruth(ShellListEnds)>;

/// Follows `if` from its word to `fi`. A condition that is not known counts as false, with a note.
ShellTruth follow_if(ShellState& state, const ShellListFollower& follow_list);

/// Follows `case` from its word to `esac`. No branch is taken for a subject that is not known.
ShellTruth follow_case(ShellState& state, const ShellListFollower& follow_list);

/// Follows a loop from its word to `done`. Turns of "for NAME in WORDS" are followed where the
/// words are known and few; other loops are passed over, and noted.
ShellTruth follow_loop(ShellState& state, const ShellListFollower& follow_list);

}  // namespace ptdp
