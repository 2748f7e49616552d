// Ends what waits too long for other processes while no watchdog looks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "cost_model/units.h"

namespace ptdp {

/// A limit of a phase, from the construction of this object to its end. Time in which the process
/// itself was stopped does not count.
class PhaseLimit {
 public:
  /// Starts a thread, which calls `expire` once after `limit`; without a limit nothing is done.
  /// Throws Error(kRuntimeFault) where the system gives no thread.
  PhaseLimit(std::optional<Seconds> limit, std::function<void()> expire);
  PhaseLimit(const PhaseLimit&) = delete;
  PhaseLimit& operator=(const PhaseLimit&) = delete;
  PhaseLimit(PhaseLimit&&) = delete;
  PhaseLimit& operator=(PhaseLimit&&) = delete;
  ~PhaseLimit();

  /// Whether `expire` was called, or is being called.
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
