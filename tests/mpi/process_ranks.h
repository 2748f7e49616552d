// This process among those of a test's job.
#pragma once

#include "runtime/transport/processes/job.h"

namespace ptdp {

[[nodiscard]] JobProcess& this_process();

}  // namespace ptdp
