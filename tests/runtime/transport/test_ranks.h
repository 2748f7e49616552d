// Runs a test function on ranks: threads (thread_ranks.cpp), or processes that mpirun started
// (tests/mpi/process_ranks.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>

#include "kernels/backend.h"
#include "runtime/launch/launch.h"
#include "runtime/transport/communicator.h"
#include "tests/runtime/transport/buffers.h"

namespace ptdp {

inline constexpr std::array kAlgorithms = {CollectiveAlgorithm::kRing,
                                           CollectiveAlgorithm::kOrdered};

/// Returns the largest number of ranks that a test can have.
[[nodiscard]] int most_ranks();

/// What a rank of a test is given.
struct TestRank {
  Communicator& all;
  Backend& backend;
  const WorldControl& world;
};

/// Calls `body` on every rank of a world of `size` ranks, and returns when those of this process
/// are done. With processes only the first `size` take part. Each sees only what its own rank does,
/// so expectations belong in the body.
void on_ranks(int size, CollectiveAlgorithm algorithm,
              const std::function<void(const TestRank&)>& body);
/// Calls `body` on every rank of a world of `size` ranks, with backends that `make_backend` makes.
void on_ranks(int size, CollectiveAlgorithm algorithm,
              const std::function<std::unique_ptr<Backend>()>& make_backend,
              const std::function<void(const TestRank&)>& body);

}  // namespace ptdp
