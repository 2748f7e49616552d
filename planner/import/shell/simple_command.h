// One simple command of a script: assignments, words and redirections.
#pragma once

#include <string>

#include "planner/import/shell/shell_script.h"
#include "planner/import/shell/shell_state.h"
#include "planner/import/shell/shell_test.h"

namespace ptdp {

/// Reads the command at the cursor up to the operator or line end behind it. Carries out its
/// assignments, and returns its words, filled in; none for assignments alone and where the state is
/// not active.
[[nodiscard]] ShellCommand read_command(ShellState& state);

/// Passes over redirections, and keeps the texts of here-documents.
void skip_redirections(ShellState& state);

/// Follows [[ ... ]], whose operators are part of it.
[[nodiscard]] ShellTruth follow_double_brackets(ShellState& state);

/// Makes -n and a text or none of -v and a name, where these are the last words of a test.
void judge_is_set(std::vector<std::string>& words, ShellState& state);

/// Follows ((...)) as a command.
[[nodiscard]] ShellTruth follow_arithmetic(ShellState& state);

/// Returns whether a command declares variables: export, declare, local, readonly, typeset.
[[nodiscard]] bool is_declaration(const std::string& name);

/// Returns whether a command declares arrays whose subscripts are texts: declare -A M.
[[nodiscard]] bool declares_keys(const std::vector<std::string>& words);

}  // namespace ptdp
