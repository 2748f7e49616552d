// Commands of the shell itself, carried out or looked into without running anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/import/shell/shell_script.h"
#include "planner/import/shell/shell_state.h"
#include "planner/import/shell/shell_test.h"

namespace ptdp {

/// Leaves out words that are variables that are not set, as the shell does; notes them.
void drop_unset(ShellCommand& command, ShellState& state);

/// Returns how a command ends that is evaluated here: a test, `true`, a declaration, `source`.
/// Returns nullopt for all others. The command has a word.
[[nodiscard]] std::optional<ShellTruth> built_in(const ShellCommand& command, ShellState& state);

/// The script that `eval` or `bash -c` runs.
struct InnerScript {
  std::string text;
  bool is_eval = false;                 ///< Whether what it sets stays.
  std::vector<std::string> positional;  ///< $0, $1, ... within it.
};

/// Returns the script within the words of a command: of `eval`, of `bash -c`, also behind srun and
/// the like; nullopt if there is none. `positional` are those of the command's own script.
[[nodiscard]] std::optional<InnerScript> inner_script(const std::vector<std::string>& words,
                                                      const std::vector<std::string>& positional);

}  // namespace ptdp
