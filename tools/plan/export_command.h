// `ptdp-plan export`: a plan as the files that another framework starts from.
#pragma once

#include "planner/search/search.h"
#include "tools/plan/plan_request.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// Adds the flags --to and --exportable, which name a framework.
void add_export_flags(boost::program_options::options_description& flags);

/// Throws Error for --to, in commands that would ignore it.
void refuse_export_flags(const CommandLine& line);

/// Makes the search leave out what the framework of --exportable cannot run, and adds that to the
/// request's assumptions. Throws Error for an unknown name.
void keep_exportable(const CommandLine& line, PlanRequest& request, SearchOptions& options);

/// Returns a line that says why the framework of --exportable does not run the best plan of all; ""
/// without that flag, and where there is no plan at all.
[[nodiscard]] std::string why_not_exportable(const CommandLine& line, const PlanRequest& request,
                                             SearchOptions options,
                                             const CalibrationSource& calibration);

/// Writes the files and says on a line for each framework what it wrote, or why it wrote nothing;
/// returns the exit status. With --to all a framework that cannot run the plan is no error, unless
/// none can. Throws Error as export_plan() does, and Error(kOutputFailed) if a file cannot be
/// written; then none of that framework's files is replaced.
[[nodiscard]] int run_export(const CommandLine& line);

}  // namespace ptdp
