// Gives tests the place of this process in their job.
#pragma once

#include "runtime/transport/processes/job.h"

namespace ptdp {

[[nodiscard]] JobProcess& this_process();

}  // namespace ptdp
