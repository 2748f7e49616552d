// Joins a job over MPI.
#include "runtime/transport/processes/mpi_world.h"

#include "runtime/transport/processes/mpi_engine.h"
#include "runtime/transport/processes/process_world.h"

namespace ptdp {

bool has_mpi() {
  return true;
}

std::unique_ptr<JobProcess> join_mpi_job() {
  return process_of(std::make_shared<MpiEngine>());
}

}  // namespace ptdp
