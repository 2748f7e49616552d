// Ranks as processes that mpirun or srun started, over MPI.
#pragma once

#include <memory>

#include "runtime/transport/processes/job.h"

namespace ptdp {

/// Returns whether this program was built with MPI.
[[nodiscard]] bool has_mpi();

/// Initializes MPI and waits for all processes of the job. Throws Error(kBadInput) when the program
/// was built without MPI, and Error(kRuntimeFault) when MPI does not start.
[[nodiscard]] std::unique_ptr<JobProcess> join_mpi_job();

}  // namespace ptdp
