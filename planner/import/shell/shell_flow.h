// The order in which a script's commands run.
#pragma once

#include <string_view>

#include "planner/import/shell/shell_limits.h"
#include "planner/import/shell/shell_script.h"

namespace ptdp {

/// Follows all commands of a text: lists, && and ||, `if`, `case`, functions and their calls, and
/// the words of `bash -c` and `eval` as scripts within. Adds what they come to to `script`. Throws
/// Error for more than 20,000 commands, for commands that nest too deeply, and beyond the limits.
void follow_commands(std::string_view text, ShellScript& script, ShellLimits& limits);

}  // namespace ptdp
