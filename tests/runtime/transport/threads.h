// Runs a function on every rank of a world of threads.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/transport/threads/thread_world.h"
#include "tests/runtime/transport/buffers.h"

namespace ptdp {

/// Calls `body` on `world.size()` threads with their communicators; returns when all are done.
inline void on_all_ranks(ThreadWorld& world, const std::function<void(Communicator&)>& body) {
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(world.size()));
  for (int rank = 0; rank < world.size(); ++rank) {
    threads.emplace_back([&, rank] {
      CpuBackend backend;
      const std::unique_ptr<Communicator> communicator = world.communicator(rank, backend);
      body(*communicator);
    });
  }
}

}  // namespace ptdp
