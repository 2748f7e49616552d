// The flags of ptdp-plan, and what --help says of them.
#pragma once

#include <vector>

#include "tools/shared/command_line.h"
#include "tools/shared/command_table.h"
#include "tools/shared/output_files.h"

namespace ptdp {

/// Returns the table of ptdp-plan, with all of its flags. Its brief help has the flags that most
/// people need, those of a command, or the one that is named.
[[nodiscard]] CommandTable plan_table();

/// Returns the files that flags name to be read: profiles, a script, a log and a plan.
[[nodiscard]] std::vector<NamedFile> input_files(const CommandLine& line);

}  // namespace ptdp
