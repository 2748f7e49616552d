// `ptdp-plan --measured` and `--log`: what an iteration of the given configuration really took.
#pragma once

#include <optional>
#include <string>

#include "planner/answer/measured_iteration.h"
#include "planner/logs/log_report.h"
#include "planner/plan/plan.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// Adds --measured and --log.
void add_measured_flags(boost::program_options::options_description& flags);
/// Throws Error for --measured and --log, in commands that would ignore them.
void refuse_measured_flags(const CommandLine& line, const std::string& by);

/// Reads a time, or a rate from which the plan's time of an iteration follows: "24s", "850ms",
/// "61000tokens/s", "7104tokens/s/GPU", "163model-TFLOP/s". Throws Error, naming `place`, for
/// anything else. TFLOP/s alone are counted as the stack's log does, where that is known.
[[nodiscard]] Seconds parse_measured(const std::string& text, const Plan& plan,
                                     const std::string& place);

/// What an iteration of a configuration really took, as far as flags say it.
struct MeasuredFlags {
  std::optional<MeasuredIteration> iteration;
  std::optional<LogReport> log;  ///< The log of --log.
};
/// Returns what --measured or --log says beside the plan. Throws Error for both, and as
/// parse_measured() and report_log() do.
[[nodiscard]] MeasuredFlags measured_flags(const CommandLine& line, const Plan& plan);

}  // namespace ptdp
