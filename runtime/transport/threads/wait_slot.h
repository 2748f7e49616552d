// Where the threads of a rank wait for other threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ptdp {

/// The number of transfers that a waiting thread still waits for.
using Countdown = std::atomic<int>;

/// A place where threads of one rank wait: they look for a while, then sleep until woken.
class WaitSlot {
 public:
  /// `looks` is how often a thread looks and yields the core before it sleeps.
  explicit WaitSlot(int looks) : looks_(looks) {}

  /// Returns once `is_over()` is true. Another thread makes it true before it calls wake().
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

  /// Wakes the threads that sleep here, so that they look again.
  void wake() {
    // The lock prevents that a thread misses the notification between its look and its sleep.
    { const std::lock_guard lock(mutex_); }
    woken_.notify_all();
  }

 private:
  int looks_;
  std::mutex mutex_;
  std::condition_variable woken_;
};

}  // namespace ptdp
