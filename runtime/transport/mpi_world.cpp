#include "runtime/transport/mpi_world.h"

#include <cassert>
#include <numeric>

#include "runtime/transport/mpi_communicator.h"
#include "runtime/transport/mpi_engine.h"

namespace ptdp {

bool has_mpi() {
  return true;
}

MpiProcess::MpiProcess() : engine_(std::make_shared<MpiEngine>()) {}

MpiProcess::~MpiProcess() = default;

int MpiProcess::rank() const {
  return engine_->rank();
}

int MpiProcess::size() const {
  return engine_->size();
}

const std::string& MpiProcess::host() const {
  return engine_->host();
}

int MpiProcess::ranks_on_host() const {
  return engine_->ranks_on_host();
}

int MpiProcess::place_on_host() const {
  return engine_->place_on_host();
}

int MpiProcess::finish(int status) noexcept {
  return engine_->finish(status);
}

MpiWorld::MpiWorld(MpiProcess& process, int size, CollectiveAlgorithm algorithm)
    : state_(std::make_shared<MpiWorldState>(process.engine(), algorithm)), size_(size) {
  assert(size >= 1 && size <= process.size());
}

std::unique_ptr<Communicator> MpiWorld::communicator(Backend& backend) {
  assert(state_->engine().rank() < size_);
  std::vector<int> all(static_cast<std::size_t>(size_));
  std::iota(all.begin(), all.end(), 0);
  return std::make_unique<MpiCommunicator>(state_, MpiGroup{.id = 0, .members = std::move(all)},
                                           state_->engine().rank(), backend);
}

void MpiWorld::abort(int status) noexcept {
  state_->engine().abort(status);
}

bool MpiWorld::is_aborted() const noexcept {
  return state_->engine().is_aborted();
}

}  // namespace ptdp
