// Ranks on emulated GPUs of their own, over the emulated NCCL.
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
  int devices = 0;  ///< Rank r is on device r modulo these; 0: as many as ranks.
  NcclOptions options = {};
};

/// Calls `body` on every rank, each a thread with a device, and returns when all are done. What a
/// rank throws ends the others, and is thrown on as run_ranks does. Expects that NCCL is left as it
/// was found, and nothing done to it that it does not survive.
void on_gpus(const GpuLaunch& launch, const std::function<void(const GpuRank&)>& body);

}  // namespace ptdp
