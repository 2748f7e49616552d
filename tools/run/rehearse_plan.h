// `ptdp-run --rehearse`: runs ranks of a plan of any size, one at a time alone on one device, and
// composes the iteration of the whole cluster.
#pragma once

#include <string>

#include "runtime/transport/processes/job.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// Adds the flags that --rehearse takes besides those of every run.
void add_rehearsal_flags(boost::program_options::options_description& flags);

/// Throws Error for a command line that does not fit --rehearse, and when a launcher started
/// several processes. `process` is null without a launcher.
void check_rehearsal(const CommandLine& line, const JobProcess* process);

/// Rehearses ranks of the plan that the command line names, prints the report, and writes it to
/// --output. Returns the exit status: 0, or 128 + the signal that ended it. Throws
/// Error(kNothingFits), before anything is allocated, for a rank that is predicted not to fit into
/// the device. Throws Error(kRuntimeFault) when a rank runs out of memory. Catches signals from the
/// call on. `program` begins its messages.
[[nodiscard]] int rehearse_plan(const CommandLine& line, const std::string& program);

}  // namespace ptdp
