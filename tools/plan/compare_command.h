// `ptdp-plan compare A.json B.json`: two written plans beside each other.
#pragma once

#include "tools/shared/command_line.h"

namespace ptdp {

/// Runs `ptdp-plan compare`: reads the two plans that `line` names, prints the comparison, and
/// writes the page of --report. Returns the exit status. Throws Error for what is no plan.
[[nodiscard]] int run_compare(const CommandLine& line);

}  // namespace ptdp
