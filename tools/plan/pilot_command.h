// `ptdp-plan pilot`: a probe and short runs that say which of several plans is the fastest.
#pragma once

#include "tools/shared/command_line.h"

namespace ptdp {

/// Adds the flag --budget.
void add_pilot_flags(boost::program_options::options_description& flags);

/// Throws Error for --budget, in commands that would ignore it.
void refuse_pilot_flags(const CommandLine& line);

/// Writes the pilot of the plans into --output: the probe with their sizes, a folder for each run
/// with its plan and its files for --to, and pilot.json. Says what to do with them; returns the
/// exit status. Throws Error for plans of different jobs, and for a run that the framework refuses.
[[nodiscard]] int run_pilot(const CommandLine& line);

}  // namespace ptdp
