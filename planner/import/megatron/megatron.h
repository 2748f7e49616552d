// Runs of Megatron-LM: arguments of pretrain_gpt.py and programs like it. Source of flags and
// defaults: megatron-core 0.19.2, megatron/training/arguments.py.
#pragma once

#include <string>
#include <string_view>

#include "planner/import/flag_list.h"
#include "planner/import/imported_run.h"

namespace ptdp {

/// Returns the model that the flags say, not resolved. Sets `missing` to the flags that it takes
/// and that are not there.
[[nodiscard]] TransformerConfig megatron_model(const FlagList& flags, ReadingNotes& reading,
                                               std::string& missing);

/// Returns whether the flags are those of Megatron-DeepSpeed, run with DeepSpeed.
[[nodiscard]] bool is_megatron_deepspeed(const FlagList& flags);
/// Reads ZeRO, sequence parallelism and offloading as Megatron-DeepSpeed's flags say them, if they
/// are there. Throws Error without a stage of ZeRO, which then only its ds_config.json says, and
/// for weights on the host. Source: Megatron-DeepSpeed 4efb479d, megatron/arguments.py; DeepSpeed
/// 0.19.8, runtime/engine.py, for stage 0.
void read_megatron_deepspeed(const FlagList& flags, ImportedRun& run);

/// Returns whether a flag has nothing to do with time and memory: data, checkpoints, logs,
/// learning.
[[nodiscard]] bool is_without_effect(std::string_view flag);
/// Returns whether a flag chooses kernels or buffers, which the stack's profile says.
[[nodiscard]] bool is_of_the_stack(std::string_view flag);

}  // namespace ptdp
