// `ptdp-plan --config X`: what exactly one configuration costs.
#pragma once

#include "planner/answer/given_config.h"
#include "tools/plan/plan_request.h"
#include "tools/plan/search_watch.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// One configuration that the command line or a file gives.
struct GivenRequest {
  ParallelConfig config;
  ReadingNotes reading;
};

/// Throws Error for a flag that has no meaning beside --config or --from, which `by` names.
void refuse_flags_of_searches(const CommandLine& line, const std::string& by);

/// Costs the configuration, prints the answer, and writes the plan of --output. Returns the exit
/// status: kNothingFits where it cannot run.
[[nodiscard]] int run_given(const CommandLine& line, const PlanRequest& request,
                            const SearchOptions& options, const CalibrationSource& calibration,
                            const GivenRequest& given, SearchWatch& watch);

}  // namespace ptdp
