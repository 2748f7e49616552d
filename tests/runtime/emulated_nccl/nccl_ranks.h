// Runs test functions on ranks with emulated GPUs of their own, over the emulated NCCL.
#pragma once

#include <functional>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/nccl/nccl_world.h"

namespace ptdp {

/// What a rank of a test over NCCL is given.
struct GpuRank {
  Communicator& all;
  Backend& backend;
  HostSide host;
  NcclWorld& world;
};

struct GpuLaunch {
  int size = 1;
  /// Number of devices; rank r is on device r modulo this. 0 for as many as ranks.
  int devices = 0;
  NcclOptions options = {};
};

/// Calls `body` on every rank, each a thread with a device, and returns when all are done. What a
/// rank throws ends the other ranks and is thrown on, as run_ranks() does. Expects that no
/// communicator is left, and that NCCL was not misused.
void on_gpus(const GpuLaunch& launch, const std::function<void(const GpuRank&)>& body);

}  // namespace ptdp
