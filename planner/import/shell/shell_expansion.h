// Words of a shell script with their variables filled in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/import/shell/shell_limits.h"
#include "planner/import/shell/shell_variables.h"
#include "planner/import/shell/unknown_value.h"

namespace ptdp {

/// Returns the words that the shell makes of a word as it is written: quotes removed, variables and
/// arithmetic filled in, values outside quotes split at blanks. Commands are not run, file names
/// not matched. "${X:=d}" sets a variable. Throws Error for words that grow beyond 4 MiB.
[[nodiscard]] std::vector<std::string> expanded(std::string_view word, ShellVariables& variables,
                                                ShellLimits& limits);
/// Returns the word with variables filled in and not split, as in an assignment.
[[nodiscard]] std::string expanded_to_one(std::string_view word, ShellVariables& variables,
                                          ShellLimits& limits);
/// Returns the text of a here-document with variables filled in.
[[nodiscard]] std::string expanded_document(std::string_view text, ShellVariables& variables,
                                            ShellLimits& limits);

}  // namespace ptdp
