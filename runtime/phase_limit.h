// Ends a phase that waits too long for other processes while no watchdog looks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "cost_model/units.h"

namespace ptdp {

/// A time limit on a phase: the lifetime of this object. Time in which the process itself was
/// stopped does not count.
class PhaseLimit {
 public:
  /// Starts a thread that calls `expire` once after `limit`; without a limit, does nothing. Throws
  /// Error(kRuntimeFault) when the system gives no thread.
  PhaseLimit(std::optional<Seconds> limit, std::function<void()> expire);
  PhaseLimit(const PhaseLimit&) = delete;
  PhaseLimit& operator=(const PhaseLimit&) = delete;
  PhaseLimit(PhaseLimit&&) = delete;
  PhaseLimit& operator=(PhaseLimit&&) = delete;
  /// Stops watching and joins the thread, waiting for a call of `expire` that is running.
  ~PhaseLimit();

  /// Returns whether `expire` was called or is being called.
  [[nodiscard]] bool has_expired() const { return has_expired_; }

 private:
  void watch(Seconds limit, const std::function<void()>& expire);

  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::atomic<bool> has_expired_ = false;
  std::thread thread_;
};

}  // namespace ptdp
