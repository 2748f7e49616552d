// Runs a command that has a table: what all of them do before their own work.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "tools/shared/command_line.h"
#include "tools/shared/command_table.h"

namespace ptdp {

/// Runs a command as run_command() does. Answers a request for completions, --help and --version by
/// the table that `make_table` returns; for any other command line returns what `work` does.
[[nodiscard]] int run_table_command(const std::string& program,
                                    const std::function<CommandTable()>& make_table,
                                    std::span<const char* const> arguments,
                                    const std::function<int(const CommandLine&)>& work);

}  // namespace ptdp
