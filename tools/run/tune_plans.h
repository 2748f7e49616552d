// `ptdp-run --tune`: runs the best plans of a search in turn, and repeats the search with what they
// measured.
#pragma once

#include <string>

#include "tools/shared/command_line.h"

namespace ptdp {

/// Adds the flags that --tune takes besides those of every run.
void add_tune_flags(boost::program_options::options_description& flags);

/// Runs the plans that the command line names and prints what tuning found. Writes the tuned plan
/// and the refitted profiles if asked. A fault or a signal ends tuning without a result; the
/// measurements of the complete turns are still printed. Returns the exit status. Throws Error for
/// plans that cannot be tuned. Catches signals from the call on. `program` begins its messages.
[[nodiscard]] int tune_plans(const CommandLine& line, const std::string& program);

}  // namespace ptdp
