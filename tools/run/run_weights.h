// Decides what a run of ptdp-run begins with, how many steps that leaves, and what it exports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/run/training_run.h"
#include "runtime/weights/pretrained_weights.h"
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

/// Opens the weights of --load for a run; nullopt without the flag. Throws Error, before anything
/// is allocated, for weights of another model, for files at fault, and for a run that is not at
/// full size.
[[nodiscard]] std::optional<PretrainedWeights> open_weights(const CommandLine& line,
                                                            const PreparedRun& run);

/// Returns where --export writes; nullopt without the flag. The type is that of `loaded`, or else
/// the first that can say the model. Tokens and the files of a tokenizer are those of `loaded`.
/// Throws Error for a directory that has weights, and for a model that no type can say.
[[nodiscard]] std::optional<WeightsExport> parse_export(const CommandLine& line,
                                                        const PreparedRun& run,
                                                        const PretrainedWeights* loaded);

}  // namespace ptdp
