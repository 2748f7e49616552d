// Bytes of all ranks on one, and of one on all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// What every rank gave, by rank, on rank 0; empty on the others. All ranks call it. Rank 0
/// receives one after the other, so that it holds no more than all of them, and tells `waits_for`
/// whose turn it is.
[[nodiscard]] std::vector<std::string> gather_bytes(
    Communicator& world, Backend& backend, std::string own,
    const std::function<void(int rank)>& waits_for = {});

/// What rank 0 gave, on all ranks. All ranks call it.
[[nodiscard]] std::string broadcast_bytes(Communicator& world, Backend& backend,
                                          std::string from_first);

}  // namespace ptdp
