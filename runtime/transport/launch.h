// Starts the ranks of a world as threads, and ends them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// That all ranks should end early. May be raised by any thread and by a signal handler.
class StopFlag {
 public:
  void raise() noexcept { is_raised_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool is_raised() const noexcept {
    return is_raised_.load(std::memory_order_relaxed);
  }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free);
  std::atomic<bool> is_raised_ = false;
};

/// Whether any rank sees the flag raised: the same answer on all ranks of `world`, which all ask at
/// the same point of their work. One all-reduce of one element.
[[nodiscard]] bool agree_to_stop(const StopFlag& flag, Communicator& world, Backend& backend);

struct RankLaunch {
  int size = 1;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  std::function<std::unique_ptr<Backend>()> make_backend;  ///< Called in every rank's thread.
};
/// What a rank does; `world` and `backend` are its own.
using RankBody = std::function<void(Communicator& world, Backend& backend)>;

/// Runs `body` on every rank, each a thread with a stack of 4 MiB, and returns when all are done.
/// When a rank throws, the others are aborted, and what was thrown first is thrown on: an Error
/// with its status and "rank 3: " before its message, anything else as such an Error of status
/// kRuntimeFault; Aborted only where nothing else was thrown. A rank that waits for nothing is
/// joined when its body ends. Throws Error(kRuntimeFault) where a thread cannot be started.
void run_ranks(const RankLaunch& launch, const RankBody& body);

}  // namespace ptdp
