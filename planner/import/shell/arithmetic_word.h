// What $((...)) becomes.
#pragma once

#include <string>
#include <string_view>

#include "planner/import/shell/shell_limits.h"
#include "planner/import/shell/shell_variables.h"

namespace ptdp {

/// Returns the number that an expression comes to, in decimal digits, or an unknown value that says
/// which variable or part is missing. Assignments within it set variables.
[[nodiscard]] std::string arithmetic_word(std::string_view expression, ShellVariables& variables,
                                          ShellLimits& limits);

}  // namespace ptdp
