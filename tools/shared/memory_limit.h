// How much memory a command may take.
#pragma once

#include "cost_model/units.h"

namespace ptdp {

/// The least of the machine's memory, the address space of the process and what its control group
/// may use, as far as these are known.
[[nodiscard]] Bytes memory_limit();

}  // namespace ptdp
