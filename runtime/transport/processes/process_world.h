// Makes a job's worlds of processes out of an engine.
#pragma once

#include <memory>

#include "runtime/transport/processes/job.h"
#include "runtime/transport/processes/process_engine.h"

namespace ptdp {

/// Returns this process as one of a job, whose messages `engine` moves.
[[nodiscard]] std::unique_ptr<JobProcess> process_of(std::shared_ptr<ProcessEngine> engine);

}  // namespace ptdp
