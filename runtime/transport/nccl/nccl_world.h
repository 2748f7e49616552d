// Ranks on GPUs that exchange tensors over NCCL.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "cost_model/units.h"
#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Whether this program was built with NCCL.
[[nodiscard]] bool has_nccl();
/// "2.28.9", of the library that is loaded. Throws Error as make_nccl_id().
[[nodiscard]] std::string nccl_version();
/// Sets what CUDA and NCCL read from the environment when they start, unless the user set it: as
/// many hardware queues as there are, since streams that share one wait for each other's messages
/// (CUDA_DEVICE_MAX_CONNECTIONS), and connections that are made with a group, not in its first call
/// (NCCL_RUNTIME_CONNECT). To be called while there is one thread, before any other call of CUDA's.
void prepare_nccl_environment();

/// What ranks find each other by: one makes it, and all are given it.
struct NcclId {
  std::array<char, 128> bytes{};
};
/// Throws Error: kBadInput in a build without NCCL, kRuntimeFault where NCCL fails.
[[nodiscard]] NcclId make_nccl_id();

struct NcclOptions {
  /// How long a call may stay in progress, the making of a group above all: all its ranks must
  /// come.
  Seconds deadline{300.0};
};

class NcclWorldState;

/// The ranks of this process: threads with a GPU each, or one.
class NcclWorld {
 public:
  NcclWorld(const NcclId& id, int size, NcclOptions options = {});
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;
  NcclWorld(NcclWorld&&) = delete;
  NcclWorld& operator=(NcclWorld&&) = delete;
  ~NcclWorld();

  /// The end of a rank, made by its thread; all ranks of all processes make theirs. `backend` is of
  /// the rank's GPU; `host` is the rank's end of the same world over the host, for what NCCL does
  /// not do. Both must outlive the end and its groups. Throws Error: kBadInput where two ranks have
  /// one GPU, kRuntimeFault where NCCL fails or ranks do not come.
  [[nodiscard]] std::unique_ptr<Communicator> communicator(int rank, Backend& backend,
                                                           const HostSide& host);
  /// Ends all communication of the ranks of this process: every call throws Aborted from here on,
  /// and GPUs that wait for other ranks go on. Of any thread; does not wait.
  void abort() noexcept;
  [[nodiscard]] bool is_aborted() const noexcept;

 private:
  std::shared_ptr<NcclWorldState> state_;
};

}  // namespace ptdp
