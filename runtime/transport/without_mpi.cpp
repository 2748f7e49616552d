// In place of mpi_*.cpp where MPI was not found.
#include "cost_model/error.h"
#include "runtime/transport/mpi_world.h"

namespace ptdp {

class MpiEngine {};
class MpiWorldState {};

bool has_mpi() {
  return false;
}

MpiProcess::MpiProcess() {
  throw Error(
      "built without MPI: ranks run as threads of one process; for processes install "
      "libopenmpi-dev (tools/install-dependencies) and build again with -DPTDP_MPI=ON");
}

// No object of these classes can be made.

MpiProcess::~MpiProcess() = default;

int MpiProcess::rank() const {
  return 0;
}

int MpiProcess::size() const {
  return 1;
}

const std::string& MpiProcess::host() const {
  static const std::string none;
  return none;
}

int MpiProcess::ranks_on_host() const {
  return 1;
}

int MpiProcess::place_on_host() const {
  return 0;
}

int MpiProcess::finish(int status) noexcept {
  return status;
}

MpiWorld::MpiWorld(MpiProcess& /*process*/, int /*size*/, CollectiveAlgorithm /*algorithm*/) {}

std::unique_ptr<Communicator> MpiWorld::communicator(Backend& /*backend*/) {
  return nullptr;
}

void MpiWorld::abort(int /*status*/) noexcept {}

bool MpiWorld::is_aborted() const noexcept {
  return false;
}

}  // namespace ptdp
