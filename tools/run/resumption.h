// Decides where a run of ptdp-run begins, and how many steps that leaves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"
#include "tools/run/run_plan.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// Opens the checkpoint that --resume goes on from. Returns nullopt without --resume. Also returns
/// nullopt when --save names the same directory and it has no checkpoint yet: a requeued job keeps
/// one command line.
[[nodiscard]] std::optional<Checkpoint> open_checkpoint(const CommandLine& line);

/// Subtracts the `done` steps from those of the training, which leaves the request with this run's
/// steps, possibly 0. Shortens the warm-up so that at least one step is measured.
void leave_done_steps(RunRequest& request, std::int64_t done);

/// Returns lines that say where a run with --resume begins. They name the checkpoint, those passed
/// over, and what differs from the run that saved it. With --quiet only lines that warn, or that
/// say all is done, remain. `request` is that of this run, after leave_done_steps().
[[nodiscard]] std::vector<std::string> describe_start(const CommandLine& line,
                                                      const RunRequest& request,
                                                      const std::optional<Checkpoint>& resumed);

}  // namespace ptdp
