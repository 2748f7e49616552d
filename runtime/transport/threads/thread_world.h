// Ranks as threads of one process.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

struct ThreadWorldState;

/// The world of ranks that are threads of one process. A message is copied once when its receiver
/// waits for it, and twice otherwise. It is then kept in memory of the transport, so that no send
/// waits.
class ThreadWorld {
 public:
  ThreadWorld(int size, CollectiveAlgorithm algorithm);
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;
  ThreadWorld(ThreadWorld&&) = delete;
  ThreadWorld& operator=(ThreadWorld&&) = delete;
  ~ThreadWorld();

  /// Returns the number of ranks.
  [[nodiscard]] int size() const;
  /// Returns the end of rank `rank`. Any thread may call it, once for each rank; one thread at a
  /// time uses the result. `backend` must outlive the end and the groups made from it.
  [[nodiscard]] std::unique_ptr<Communicator> communicator(int rank, Backend& backend);
  /// Ends all communication: pending waits and all later calls throw Aborted. Buffers of a rank
  /// that left its call are not written to any more. Any thread may call it.
  void abort() noexcept;
  /// Returns whether abort() was called.
  [[nodiscard]] bool is_aborted() const noexcept;

 private:
  std::shared_ptr<ThreadWorldState> state_;
};

}  // namespace ptdp
