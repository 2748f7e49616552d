// `ptdp-sim plan.json`: simulates a step of a plan.
#pragma once

#include <string>
#include <vector>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/text/named_values.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// Adds the flags that apply only to plans.
void add_plan_flags(boost::program_options::options_description& flags);

/// Returns all schedules with the names that --schedule takes.
[[nodiscard]] std::vector<NamedValue<const ScheduleTraits*>> named_schedules();

/// Whether the file is JSON, as plans are, by its name or its first character. Throws Error if the
/// file cannot be read.
[[nodiscard]] bool is_plan_file(const std::string& path);

/// Simulates the plan that the command line names, prints what the flags ask for, and returns the
/// exit status.
[[nodiscard]] int simulate_plan_file(const CommandLine& line);

}  // namespace ptdp
