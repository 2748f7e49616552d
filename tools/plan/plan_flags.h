// The flags of ptdp-plan, and what --help says of them.
#pragma once

#include <optional>
#include <string>

#include "tools/shared/command_line.h"
#include "tools/shared/command_table.h"

namespace ptdp {

/// Returns the table of ptdp-plan, with all of its flags.
[[nodiscard]] CommandTable plan_table();

/// Returns the answer to --help or to --version. --help has the flags that most people need, those
/// of a command, or the one that is named; with `all` it has `flags`. Returns nullopt when neither
/// is given. Throws Error for a name that no flag has.
[[nodiscard]] std::optional<std::string> plan_help(const CommandLine& line,
                                                   const CommandTable& table);

}  // namespace ptdp
