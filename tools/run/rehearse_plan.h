// ptdp-run --rehearse: ranks of a plan of any size, one after the other alone on one device, and
// the iteration of the whole cluster that follows.
#pragma once

#include <string>

#include "runtime/transport/processes/job.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// The flags that it takes besides those of every run.
void add_rehearsal_flags(boost::program_options::options_description& flags);

/// Throws Error for a command line that no rehearsal has, and where a launcher started several
/// processes; null: none did.
void check_rehearsal(const CommandLine& line, const JobProcess* process);

/// Rehearses ranks of the plan that the line names and prints the report; writes it where asked.
/// Returns the status: 128 + the signal that ended it. Throws Error: of status kNothingFits, before
/// anything is allocated, for a rank that does not fit into the device as it is predicted, of
/// kRuntimeFault where its memory did not suffice. Catches signals from here on. `program` begins
/// its messages.
[[nodiscard]] int rehearse_plan(const CommandLine& line, const std::string& program);

}  // namespace ptdp
