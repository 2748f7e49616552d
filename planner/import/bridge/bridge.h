// Runs of Megatron-Bridge. Source of paths and defaults: megatron-bridge 0.6.2, ConfigContainer.
#pragma once

#include <string>
#include <string_view>

#include "planner/import/bridge/bridge_settings.h"
#include "planner/import/flag_list.h"
#include "planner/import/imported_run.h"

namespace ptdp {

/// Returns the model that the paths under "model." say, not resolved. Sets `missing` to the paths
/// that it takes and that are not there.
[[nodiscard]] TransformerConfig bridge_model(const FlagList& paths, std::string& missing);

/// Reads degrees, schedule, recomputation, sharding, offloading and overlap into `run`.
/// `file` says whose defaults hold. The model must be read before.
void read_bridge_config(const FlagList& paths, const BridgeFile& file,
                        const TransformerConfig& model, ImportedRun& run);

/// Returns --precision's word for the precision that the paths say. Throws Error for those that
/// ptdp has not: recipes of fp4 other than NVFP4, and fp8 beside fp16.
[[nodiscard]] std::string bridge_precision(const FlagList& paths, const BridgeFile& file,
                                           ReadingNotes& reading);

/// Returns whether a path or a flag has nothing to do with time and memory: data, checkpoints,
/// logs, learning, jobs.
[[nodiscard]] bool is_bridge_without_effect(std::string_view path);
/// Returns whether a path says a part of the model's shape.
[[nodiscard]] bool is_bridge_shape(std::string_view path);
/// Returns whether a path chooses kernels or buffers, which the stack's profile says.
[[nodiscard]] bool is_bridge_of_the_stack(std::string_view path);

}  // namespace ptdp
