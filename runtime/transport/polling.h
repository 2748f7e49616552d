// How a thread waits for what nobody wakes it for.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace ptdp {

/// Looks again at once for a while, leaving the core to others in between, then after sleeps that
/// grow with the time waited: they add a part of it to the wait, and let the ranks that share the
/// core work.
class Polling {
 public:
  explicit Polling(int looks) : looks_(looks) {}

  void pause() {
    if (looks_ > 0) {
      --looks_;
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(sleep_ + sleep_ / 4, kLongest);
  }

 private:
  using Microseconds = std::chrono::microseconds;
  static constexpr Microseconds kLongest{1000};

  int looks_;
  Microseconds sleep_{20};
};

}  // namespace ptdp
