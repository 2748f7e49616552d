// Commands of the shell itself that are evaluated without running anything.
#pragma once

#include <optional>

#include "planner/import/shell/shell_script.h"
#include "planner/import/shell/shell_state.h"
#include "planner/import/shell/shell_test.h"

namespace ptdp {

/// Leaves out words that are variables that are not set, as the shell does; notes them.
void drop_unset(ShellCommand& command, ShellState& state);

/// Returns how a command ends that is evaluated here: a test, `true`, a declaration, `source`.
/// Returns nullopt for all others. The command has a word.
[[nodiscard]] std::optional<ShellTruth> built_in(const ShellCommand& command, ShellState& state);

}  // namespace ptdp
