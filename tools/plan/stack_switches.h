// Flags of ptdp-plan that switch single optimizations of a stack on or off, and what they cost.
#pragma once

#include <string>
#include <vector>

#include "cost_model/inputs/stack_spec.h"
#include "planner/plan/plan.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// Adds --scatter-gather and --fused: the switches of SC21's ablations (arXiv:2104.04473 sections
/// 5.7 and 5.8).
void add_stack_switches(boost::program_options::options_description& flags);

/// Returns the stack as the switches say. Throws Error for a value other than on and off, and for
/// --fused of a stack whose kernels are this project's own.
[[nodiscard]] StackSpec with_switches(StackSpec stack, const CommandLine& line);

/// Returns a line for each switch that is given: what an iteration of the plan would take with the
/// switch the other way.
[[nodiscard]] std::vector<std::string> costs_of_switches(const CommandLine& line, const Plan& plan);

}  // namespace ptdp
