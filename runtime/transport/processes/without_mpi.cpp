// Replaces mpi_*.cpp in builds without MPI.
#include "cost_model/error.h"
#include "runtime/transport/processes/mpi_world.h"

namespace ptdp {

bool has_mpi() {
  return false;
}

std::unique_ptr<JobProcess> join_mpi_job() {
  throw Error(
      "built without MPI: ranks run as threads of one process; for processes install "
      "libopenmpi-dev (tools/install-dependencies) and build again with -DPTDP_MPI=ON");
}

}  // namespace ptdp
