// Processes as ranks, over an engine that moves their messages.
#pragma once

#include <memory>

#include "runtime/transport/processes/job.h"
#include "runtime/transport/processes/process_engine.h"

namespace ptdp {

[[nodiscard]] std::unique_ptr<JobProcess> process_of(std::shared_ptr<ProcessEngine> engine);

}  // namespace ptdp
