// Ranks as processes, started by mpirun or srun, over MPI.
#pragma once

#include <memory>

#include "runtime/transport/processes/job.h"

namespace ptdp {

/// Whether this program was built with MPI.
[[nodiscard]] bool has_mpi();

/// Initialises MPI; waits for all processes of the job. Throws Error(kBadInput) where the program
/// was built without MPI, Error(kRuntimeFault) where MPI does not start.
[[nodiscard]] std::unique_ptr<JobProcess> join_mpi_job();

}  // namespace ptdp
