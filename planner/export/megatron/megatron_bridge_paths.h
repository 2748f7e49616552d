// Megatron-LM's flags under the names that Megatron-Bridge has for them.
#pragma once

#include <vector>

#include "planner/export/megatron/megatron_arguments.h"
#include "planner/export/megatron/megatron_bridge_config.h"

namespace ptdp {

/// Returns what Megatron-Bridge sets for a flag of Megatron-LM, which can be several values. It
/// returns nothing for flags whose values Bridge derives, or is told in another way.
[[nodiscard]] std::vector<BridgeSetting> bridge_paths(const MegatronArgument& argument);

}  // namespace ptdp
