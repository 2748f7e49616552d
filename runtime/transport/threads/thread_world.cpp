// Makes the ends of a world of threads.
#include "runtime/transport/threads/thread_world.h"

#include <cassert>

#include "runtime/transport/threads/thread_communicator.h"
#include "runtime/transport/threads/thread_group.h"

namespace ptdp {

ThreadWorld::ThreadWorld(int size, CollectiveAlgorithm algorithm)
    : state_(std::make_shared<ThreadWorldState>(size, algorithm)) {}

ThreadWorld::~ThreadWorld() = default;

int ThreadWorld::size() const {
  return state_->all.size();
}

std::unique_ptr<Communicator> ThreadWorld::communicator(int rank, Backend& backend) {
  assert(rank >= 0 && rank < size());
  return std::make_unique<ThreadCommunicator>(state_, state_->all, rank, backend);
}

void ThreadWorld::abort() noexcept {
  state_->abort();
}

bool ThreadWorld::is_aborted() const noexcept {
  return state_->is_aborted.load();
}

}  // namespace ptdp
