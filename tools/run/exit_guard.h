// Ends a process that is stopped on its way out, when no other process is left to notice.
#pragma once

#include <optional>
#include <string>

#include "cost_model/units.h"

namespace ptdp {

/// Starts a second process that waits for the end of this one. If the end takes longer than
/// `limit`, the second process prints `line` and ends this one with status kRuntimeFault, even if
/// it is stopped. Does nothing without a limit, or when no process can be started.
void guard_exit(std::optional<Seconds> limit, const std::string& line);

}  // namespace ptdp
