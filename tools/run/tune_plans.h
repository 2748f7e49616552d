// ptdp-run --tune: the best plans of a search, run in turn, and the search again by what they
// measured.
#pragma once

#include <string>

#include "tools/shared/command_line.h"

namespace ptdp {

/// The flags that it takes besides those of every run.
void add_tune_flags(boost::program_options::options_description& flags);

/// Runs the plans that the words of the line name and prints what tuning found; writes the tuned
/// plan and the refitted profiles where asked. A fault or a signal ends it with nothing tuned: then
/// tells what the turns before measured. Returns the status; throws Error for what it cannot tune.
/// Catches signals from here on. `program` begins its messages.
[[nodiscard]] int tune_plans(const CommandLine& line, const std::string& program);

}  // namespace ptdp
