// ptdp-sim plan.json: a plan's step, simulated.
#pragma once

#include <string>
#include <vector>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/text/named_values.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// Adds the flags that only plans have.
void add_plan_flags(boost::program_options::options_description& flags);

/// All schedules by name, as --schedule takes them.
[[nodiscard]] std::vector<NamedValue<const ScheduleTraits*>> named_schedules();

/// Whether the file is JSON by its name or its first character, as plans are; throws Error if it
/// cannot be read.
[[nodiscard]] bool is_plan_file(const std::string& path);

/// Simulates the plan that the line's word names, and prints what its flags ask for.
[[nodiscard]] int simulate_plan_file(const CommandLine& line);

}  // namespace ptdp
