// `ptdp-run --tune`: runs the best plans of a search in turn, and repeats the search with what they
// measured.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/executor/training_settings.h"
#include "runtime/run/training_run.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// A turn of a plan that is tuned, which runs by itself.
struct Turn {
  std::int64_t steps = 0;  ///< Steps of the turn, with those that are not measured.
  OperationTiming timing;  ///< The steps whose operations are timed.
};
/// Returns a turn of `warm_up` steps and `measured` ones. Where the run would time operations only
/// now and then, since that slows a step, they are timed in one more step, the last.
[[nodiscard]] Turn turn_of(std::int64_t measured, std::int64_t warm_up,
                           const OperationTiming& timing);

/// Adds the steps of a turn behind its warm-up to those of the turns before, as if they were one
/// run. Of a turn longer than kDetailedSteps only the last steps are added, whose actions are
/// known. undisturbed_step_times() of the sum are the measured times.
void add_turn(RunRecord& all, const RunRecord& turn, std::int64_t warm_up);

/// Adds the flags that --tune takes besides those of every run.
void add_tune_flags(boost::program_options::options_description& flags);

/// Runs the plans that the command line names and prints what tuning found. Writes the tuned plan
/// and the refitted profiles if asked. A fault or a signal ends tuning without a result; the
/// measurements of the complete turns are still printed. Returns the exit status. Throws Error for
/// plans that cannot be tuned. Catches signals from the call on. `program` begins its messages.
[[nodiscard]] int tune_plans(const CommandLine& line, const std::string& program);

}  // namespace ptdp
