// The flags of ptdp-run, and what they ask for.
#pragma once

#include <cstdint>

#include "runtime/run/training_run.h"
#include "tools/run/run_plan.h"
#include "tools/shared/command_line.h"

namespace ptdp {

[[nodiscard]] boost::program_options::options_description run_flags();

/// Throws Error for values that no run can have.
[[nodiscard]] RunRequest parse_request(const CommandLine& line);
/// Sets when the rate is lowest: at the training's last step unless told otherwise.
void finish_learning_rate(const CommandLine& line, RunRequest& request);
/// Opens what --data and --data-type name, or without them makes synthetic text. Throws Error as
/// TrainingData does.
[[nodiscard]] TrainingData open_data(const RunRequest& request, const TransformerConfig& model);
/// --save and --save-every.
[[nodiscard]] CheckpointOptions parse_checkpoint(const CommandLine& line);

/// Refuses, before hours are spent on it, outputs that could not be written, and those that would
/// replace an input or each other. Makes the directory of --save.
void check_outputs(const CommandLine& line);

}  // namespace ptdp
