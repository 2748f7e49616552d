// The directories of Hugging Face that a run begins with and ends in: --load and --export.
#pragma once

#include <optional>

#include "runtime/run/training_run.h"
#include "runtime/weights/pretrained_weights.h"
#include "tools/run/run_plan.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// Opens the weights of --load for a run; nullopt without the flag. Throws Error, before anything
/// is allocated, for weights of another model, for files at fault, and for a run that is not at
/// full size.
[[nodiscard]] std::optional<PretrainedWeights> open_weights(const CommandLine& line,
                                                            const PreparedRun& run);

/// Returns where --export writes; nullopt without the flag. The type is that of `loaded`, or else
/// the first that can say the model. Throws Error for a directory that has weights, and for a model
/// that no type can say.
[[nodiscard]] std::optional<WeightsExport> parse_export(const CommandLine& line,
                                                        const PreparedRun& run,
                                                        const PretrainedWeights* loaded);

}  // namespace ptdp
