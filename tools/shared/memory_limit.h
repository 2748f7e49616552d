// How much memory a command may take.
#pragma once

#include "cost_model/units.h"

namespace ptdp {

/// Returns how much memory a command may take [B]. This is the least of the machine's memory, the
/// process's address-space limit and its control group's limit, as far as these are known.
[[nodiscard]] Bytes memory_limit();

}  // namespace ptdp
