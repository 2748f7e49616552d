// Where a run of ptdp-run begins, and how many steps that leaves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"
#include "tools/run/run_plan.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// The checkpoint that --resume goes on from. None where its directory is that of --save and has
/// none yet: a job that is queued again has one command line.
[[nodiscard]] std::optional<Checkpoint> open_checkpoint(const CommandLine& line);

/// Takes the steps that are done off those of the training: the request is then of this run, may be
/// of 0 steps, and its warm-up leaves one to measure.
void leave_done_steps(RunRequest& request, std::int64_t done);

/// Lines that say where a run with --resume begins: which checkpoint, which it passed over, and
/// what is another in the run that saved it; of --quiet those alone that warn, or that all is done.
/// `request`: of this run.
[[nodiscard]] std::vector<std::string> describe_start(const CommandLine& line,
                                                      const RunRequest& request,
                                                      const std::optional<Checkpoint>& resumed);

}  // namespace ptdp
