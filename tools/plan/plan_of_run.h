// The plan of a run that was measured elsewhere: what flags, a script or its log say it was.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/accuracy/calibration_file.h"
#include "planner/import/imported_run.h"
#include "planner/logs/training_log.h"
#include "planner/plan/plan.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// Adds the flags that say what was run: --from, --config, and those of the job.
void add_run_flags(boost::program_options::options_description& flags);
/// The flags of add_run_flags().
[[nodiscard]] std::vector<std::string> run_flags();

/// Throws Error for a flag that only --log and --trace use: --plan and those of add_run_flags().
void refuse_run_flags(const CommandLine& line);

/// Returns the run whose `arguments` the log `place` lists; nullopt for a list that says no run.
/// Throws Error as read_from() does.
[[nodiscard]] std::optional<ImportedRun> run_of_log(const CommandLine& line,
                                                    const std::string& arguments,
                                                    const std::string& place);

/// The plan of a run, and what was assumed of it.
struct PlanOfRun {
  std::optional<Plan> plan;  ///< Nullopt without --plan and any flag of add_run_flags().
  std::vector<std::string> assumptions;  ///< What flags and files leave out, a line each.
};

/// Returns the plan in `plan_file`, if one is given; else that of --from or --config; else that of
/// the arguments which the log `place` lists. Throws Error for flags beside a plan that they would
/// contradict, for a run that says too little, and for one whose numbers do not go together.
[[nodiscard]] PlanOfRun plan_of_run(const CommandLine& line, const TrainingLog& log,
                                    const std::string& place,
                                    const std::optional<std::string>& plan_file,
                                    const CalibrationSource& calibration);

}  // namespace ptdp
