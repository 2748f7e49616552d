// How a thread waits for an event that nobody wakes it for.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ptdp {

/// Returns how often each of `ranks` ranks of a host looks before it sleeps. A rank with a core of
/// its own looks `looks` times; ranks that share cores look in proportion fewer times.
[[nodiscard]] inline int looks_of_each(int looks, int ranks) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return std::min(looks, looks * cores / ranks);
}

/// Paces a thread that polls. At first it looks again at once and only yields the core. Then it
/// sleeps, for times that grow with the time waited. The sleeps add a fraction to the wait, and let
/// other ranks on the core work.
class Polling {
 public:
  explicit Polling(int looks) : looks_(looks) {}

  /// Yields or sleeps without holding `lock`, and holds it again on return. A notification of
  /// `woken` ends a sleep early.
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
