// `ptdp-plan export`: a plan as the files that another framework starts from.
#pragma once

#include "tools/shared/command_line.h"

namespace ptdp {

/// Adds the flag --to, which names a framework.
void add_export_flags(boost::program_options::options_description& flags);

/// Throws Error for --to, in commands that would ignore it.
void refuse_export_flags(const CommandLine& line);

/// Writes the files and says on a line for each framework what it wrote, or why it wrote nothing;
/// returns the exit status. With --to all a framework that cannot run the plan is no error, unless
/// none can. Throws Error as export_plan() does, and Error(kOutputFailed) if a file cannot be
/// written; then none of that framework's files is replaced.
[[nodiscard]] int run_export(const CommandLine& line);

}  // namespace ptdp
