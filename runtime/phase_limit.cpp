#include "runtime/phase_limit.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/named_thread.h"

namespace ptdp {
namespace {

using LimitClock = std::chrono::steady_clock;

/// Interval between two looks at the clock.
constexpr std::chrono::milliseconds kLookInterval{50};
/// Longest pause between two looks that counts in full. After a longer pause this process itself
/// was stopped, and only kLookInterval counts.
constexpr std::chrono::seconds kLongestLookPause{1};

}  // namespace

PhaseLimit::PhaseLimit(std::optional<Seconds> limit, std::function<void()> expire) {
  if (limit) {
    thread_ =
        named_thread("limit", [this, limit, expire = std::move(expire)] { watch(*limit, expire); });
  }
}

PhaseLimit::~PhaseLimit() {
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void PhaseLimit::watch(Seconds limit, const std::function<void()>& expire) {
  LimitClock::duration passed{0};
  LimitClock::time_point before = LimitClock::now();
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kLookInterval, [this] { return is_ended_; })) {
    const LimitClock::time_point now = LimitClock::now();
    const LimitClock::duration pause = now - std::exchange(before, now);
    passed += pause > kLongestLookPause ? kLookInterval : pause;
    if (std::chrono::duration<double>(passed).count() > limit.value()) {
      has_expired_ = true;
      lock.unlock();
      expire();
      return;
    }
  }
}

}  // namespace ptdp
