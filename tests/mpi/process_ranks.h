// This process among those of a test's job.
#pragma once

#include "runtime/transport/mpi_world.h"

namespace ptdp {

[[nodiscard]] MpiProcess& this_process();

}  // namespace ptdp
