// The flags that say what recomputation is of.
#pragma once

#include "planner/enumerate.h"
#include "tools/command_line.h"

namespace ptdp {

void add_recompute_flags(boost::program_options::options_description& flags);

/// Reads --recompute, --recompute-modules, --recompute-method and --recompute-num-layers into pins;
/// throws Error where they contradict each other.
void read_recompute_flags(const CommandLine& line, Pins& pins);

}  // namespace ptdp
