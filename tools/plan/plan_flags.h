// The flags of ptdp-plan, and what --help says of them.
#pragma once

#include "tools/shared/command_table.h"

namespace ptdp {

/// Returns the table of ptdp-plan, with all of its flags. Its brief help has the flags that most
/// people need, those of a command, or the one that is named.
[[nodiscard]] CommandTable plan_table();

}  // namespace ptdp
