// The flags of ptdp-run, and the requests that they make.
#pragma once

#include <cstdint>

#include "runtime/run/training_run.h"
#include "tools/run/run_plan.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// Returns all flags of ptdp-run.
[[nodiscard]] boost::program_options::options_description run_flags();

/// Reads the run's request from the flags. Throws Error for a value that no run can have.
[[nodiscard]] RunRequest parse_request(const CommandLine& line);
/// Sets the step at which the learning rate is lowest: --lr-decay, or else the training's last
/// step. Throws Error if the learning rate's warm-up is longer.
void finish_learning_rate(const CommandLine& line, RunRequest& request);
/// Opens the file that --data and --data-type name, or makes synthetic text without --data. Throws
/// the errors of TrainingData.
[[nodiscard]] TrainingData open_data(const RunRequest& request, const TransformerConfig& model);
/// Reads --save and --save-every. Throws Error for --save-every without --save.
[[nodiscard]] CheckpointOptions parse_checkpoint(const CommandLine& line);

/// Throws Error, before a run spends hours, for an output that cannot be written or would replace
/// an input or another output. Makes the directory of --save.
void check_outputs(const CommandLine& line);

}  // namespace ptdp
