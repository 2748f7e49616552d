// What a shell script would start, found without running anything.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "planner/import/shell/shell_limits.h"
#include "planner/import/shell/shell_variables.h"

namespace ptdp {

/// A command that a script would run, with its words filled in.
struct ShellCommand {
  int line = 0;
  std::vector<std::string> words = {};
  /// Variables that hold for this command alone: X=1 before its words.
  std::map<std::string, std::string, std::less<>> environment = {};
};

/// What a script comes to.
struct ShellScript {
  std::vector<ShellCommand> commands = {};  ///< In the order in which they would run.
  std::vector<std::string> documents = {};  ///< Texts of here-documents, filled in.
  std::vector<std::string> notes = {};      ///< What was not followed, one sentence each.
  ShellVariables variables = {};            ///< As they are at the end.
};

/// Follows a bash script: assignments, arrays, +=, defaults, arithmetic, `if`, `case` and calls of
/// its functions. Nothing is run and no file is read:
///
///   - the output of a command is unknown, and so is a condition that needs it; it counts as false,
///     as does a test before && or ||, while any other command there is taken to succeed;
///   - loops run over words that are known; the bodies of others are left out;
///   - the words of `bash -c` and `eval` are followed as a script.
///
/// `variables` are set at the start. Throws Error, naming the limits' place and the line, for a
/// script that nests too deeply, grows without end or takes more work than the limits allow.
[[nodiscard]] ShellScript follow_script(std::string_view text, ShellLimits& limits,
                                        ShellVariables variables = {});
/// Follows a bash script with limits of its own; `place` is its name in messages.
[[nodiscard]] ShellScript follow_script(std::string_view text, const std::string& place);

}  // namespace ptdp
