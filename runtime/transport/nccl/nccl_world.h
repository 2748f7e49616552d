// Ranks on GPUs that exchange tensors over NCCL.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "cost_model/units.h"
#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Returns whether this program was built with NCCL.
[[nodiscard]] bool has_nccl();
/// Returns the version of the loaded library, such as "2.28.9". Throws Error(kBadInput) in a build
/// without NCCL, and Error(kRuntimeFault) when it cannot be loaded.
[[nodiscard]] std::string nccl_version();
/// Sets environment variables that CUDA and NCCL read when they start, unless the user set them.
/// CUDA_DEVICE_MAX_CONNECTIONS becomes the number of hardware queues, since streams that share one
/// wait for each other's messages. CUDA_MODULE_LOADING is set so that no kernel is loaded at its
/// first launch, which would wait for all that the GPU has queued. NCCL_RUNTIME_CONNECT is set so
/// that connections are made with a group, not in its first call. It also removes
/// NCCL_COMM_BLOCKING. Call it while there is one thread, before any call of CUDA.
void prepare_nccl_environment();

/// The id by which ranks find each other. One rank makes it, and all ranks are given it.
struct NcclId {
  std::array<char, 128> bytes{};
};
/// Makes an id. Throws Error(kBadInput) in a build without NCCL, and Error(kRuntimeFault) when NCCL
/// fails.
[[nodiscard]] NcclId make_nccl_id();

/// Options of an NcclWorld.
struct NcclOptions {
  /// How long a call may stay in progress, or block. Making a group takes longest, because all its
  /// ranks must come.
  Seconds deadline{300.0};
};

class NcclWorldState;

/// The ranks of this process in a world over NCCL: threads with a GPU each, or one rank.
class NcclWorld {
 public:
  /// Makes a world of `size` ranks over all processes. `id` is the same on all.
  NcclWorld(const NcclId& id, int size, NcclOptions options = {});
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;
  NcclWorld(NcclWorld&&) = delete;
  NcclWorld& operator=(NcclWorld&&) = delete;
  ~NcclWorld();

  /// Makes the end of rank `rank`; its own thread calls this, and all ranks of all processes make
  /// theirs. `backend` is that of the rank's GPU. `host` is the rank's end of the same world over
  /// host memory, for what NCCL does not do. Both must outlive the end and its groups. Throws
  /// Error(kBadInput) when two ranks have one GPU, versions differ, or `backend` is a host's, and
  /// Error(kRuntimeFault) when NCCL fails or ranks do not come.
  [[nodiscard]] std::unique_ptr<Communicator> communicator(int rank, Backend& backend,
                                                           const HostSide& host);
  /// Ends all communication of the ranks of this process: every later call throws Aborted, and GPUs
  /// that wait for other ranks go on. Any thread may call it; it does not wait.
  void abort() noexcept;
  /// Returns whether the world was aborted or failed.
  [[nodiscard]] bool is_aborted() const noexcept;

 private:
  std::shared_ptr<NcclWorldState> state_;
};

}  // namespace ptdp
