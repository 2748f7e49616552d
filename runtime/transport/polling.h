// How a thread waits for what nobody wakes it for.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ptdp {

/// How often each of `ranks` ranks of a host looks before it sleeps, where one with a core of its
/// own looks `looks` times.
[[nodiscard]] inline int looks_of_each(int looks, int ranks) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return std::min(looks, looks * cores / ranks);
}

/// Looks again at once for a while, leaving the core to others in between, then after sleeps that
/// grow with the time waited: they add a part of it to the wait, and let the ranks that share the
/// core work.
class Polling {
 public:
  explicit Polling(int looks) : looks_(looks) {}

  /// Without the lock. `woken` ends a sleep early.
  void pause(std::unique_lock<std::mutex>& lock, std::condition_variable& woken) {
    if (looks_ > 0) {
      --looks_;
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
      return;
    }
    woken.wait_for(lock, sleep_);
    sleep_ = std::min(sleep_ + sleep_ / 4, kLongest);
  }

 private:
  using Microseconds = std::chrono::microseconds;
  static constexpr Microseconds kLongest{1000};

  int looks_;
  Microseconds sleep_{20};
};

}  // namespace ptdp
