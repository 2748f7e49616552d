// Ranks as threads of one process.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

struct ThreadWorldState;

/// What the threads share. A message is copied once if its receiver waits for it, else twice: it is
/// kept in memory of the transport's own, so that no send waits.
class ThreadWorld {
 public:
  ThreadWorld(int size, CollectiveAlgorithm algorithm);
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;
  ThreadWorld(ThreadWorld&&) = delete;
  ThreadWorld& operator=(ThreadWorld&&) = delete;
  ~ThreadWorld();

  [[nodiscard]] int size() const;
  /// The end of one rank: to be called once for each, by any thread, and used by one thread at a
  /// time. `backend` must outlive it and the groups made of it.
  [[nodiscard]] std::unique_ptr<Communicator> communicator(int rank, Backend& backend);
  /// Ends all communication: whoever waits for a message, and every call from here on, throws
  /// Aborted. Buffers of a rank that left its call are not written to any more. Of any thread.
  void abort() noexcept;
  [[nodiscard]] bool is_aborted() const noexcept;

 private:
  std::shared_ptr<ThreadWorldState> state_;
};

}  // namespace ptdp
