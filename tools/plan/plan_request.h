// What the flags of ptdp-plan ask for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "planner/answer/planning.h"
#include "planner/answer/planning_output.h"
#include "planner/search/search.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// What is planned for, and what was not said and is therefore assumed.
struct PlanRequest {
  Scenario scenario;
  std::int64_t gpus = 0;
  std::vector<std::string> assumptions;
};

/// The stack of --stack, else the default of the cluster that --cluster names. Throws Error.
[[nodiscard]] StackSpec find_stack_of(const CommandLine& line, const ClusterSpec& cluster);

/// Read from the flags. Throw Error, naming the flag or the file, where one is missing, is not of
/// its kind, or contradicts another.
[[nodiscard]] PlanRequest read_request(const CommandLine& line);
[[nodiscard]] SearchOptions read_options(const CommandLine& line, std::int64_t gpus);
[[nodiscard]] RunBudget read_budget(const CommandLine& line);

}  // namespace ptdp
