// Ends a process that is stopped on its way out, when nobody else is left to notice.
#pragma once

#include <optional>
#include <string>

#include "cost_model/units.h"

namespace ptdp {

/// Starts a process that waits for the end of this one. Where that takes longer than `limit` it
/// prints `line`, and this process ends with status kRuntimeFault, also if it is stopped. Does
/// nothing without a limit, or where no process can be started.
void guard_exit(std::optional<Seconds> limit, const std::string& line);

}  // namespace ptdp
