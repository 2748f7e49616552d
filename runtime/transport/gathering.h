// Gathers byte strings of all ranks on rank 0, and broadcasts one from rank 0.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Gathers the bytes of all ranks on rank 0. Returns there what every rank gave, in the order of
/// ranks, and an empty vector elsewhere. All ranks call it. Rank 0 receives from one rank at a
/// time, so that it holds no more than the result, and first calls `waits_for` with that rank.
[[nodiscard]] std::vector<std::string> gather_bytes(
    Communicator& world, Backend& backend, std::string own,
    const std::function<void(int rank)>& waits_for = {});

/// Returns, on all ranks, what rank 0 gave as `from_first`. All ranks call it.
[[nodiscard]] std::string broadcast_bytes(Communicator& world, Backend& backend,
                                          std::string from_first);

}  // namespace ptdp
