// Where the threads of a rank wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ptdp {

/// What a thread still waits for.
using Countdown = std::atomic<int>;

class WaitSlot {
 public:
  /// `looks`: how often a thread looks again, with the core left to others in between, before it
  /// sleeps.
  explicit WaitSlot(int looks) : looks_(looks) {}

  /// Returns once `is_over()`, which another thread makes true before it calls wake().
  template <class Condition>
  void wait_until(const Condition& is_over) {
    for (int i = 0; i < looks_; ++i) {
      if (is_over()) {
        return;
      }
      std::this_thread::yield();
    }
    std::unique_lock lock(mutex_);
    woken_.wait(lock, is_over);
  }

  void wake() {
    // The lock keeps a sleeper from missing it between its look and its sleep.
    { const std::lock_guard lock(mutex_); }
    woken_.notify_all();
  }

 private:
  int looks_;
  std::mutex mutex_;
  std::condition_variable woken_;
};

}  // namespace ptdp
