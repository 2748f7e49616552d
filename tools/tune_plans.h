// ptdp-run --tune: the best plans of a search, run in turn, and the search again by what they
// measured.
#pragma once

#include "tools/command_line.h"
#include "tools/run_faults.h"
#include "tools/run_plan.h"

namespace ptdp {

/// The flags that it takes besides those of every run.
void add_tune_flags(boost::program_options::options_description& flags);

/// Runs the plans that the words of the line name and prints what tuning found; writes the tuned
/// plan and the refitted profiles where asked. Signals end it with nothing tuned: throws
/// EndedEarly, or after a step Error. Throws Error.
void tune_plans(const CommandLine& line, const RunRequest& request, const RunSignals& signals);

}  // namespace ptdp
