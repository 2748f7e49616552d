// Reads runs of Megatron-LM: arguments of pretrain_gpt.py and programs like it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "planner/import/flag_list.h"
#include "planner/import/imported_run.h"

namespace ptdp {

/// Reads a launch script, arguments alone, or the list of arguments in a log
/// (planner/import/launched_program.h). `gpus` stands for the launcher's number. What the file does
/// not say has Megatron-LM's default. Throws Error, naming `place`, for what cannot be read, for a
/// value that depends on running the script, and for GPUs that the degrees do not divide. Source of
/// flags and defaults: megatron-core 0.19.2, megatron/training/arguments.py.
[[nodiscard]] ImportedRun read_megatron(std::string_view text, std::optional<std::int64_t> gpus,
                                        const std::string& place);

/// Returns the model that the flags say, not resolved. Sets `missing` to the flags that it takes
/// and that are not there.
[[nodiscard]] TransformerConfig megatron_model(const FlagList& flags, ReadingNotes& reading,
                                               std::string& missing);

/// Returns whether a flag has nothing to do with time and memory: data, checkpoints, logs,
/// learning.
[[nodiscard]] bool is_without_effect(std::string_view flag);
/// Returns whether a flag chooses kernels or buffers, which the stack's profile says.
[[nodiscard]] bool is_of_the_stack(std::string_view flag);

}  // namespace ptdp
