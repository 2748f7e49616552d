// How long a rank computes, by what it computes.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace ptdp {

/// What is timed apart; the rest of an action is bound by memory.
enum class OperationKind : std::uint8_t { kMatmul, kAttention };
inline constexpr int kNumOperationKinds = 2;

/// Keeps two events for every operation, so that none has to be waited for.
class OperationClock {
 public:
  explicit OperationClock(Backend& backend) : backend_(backend) {}

  /// Runs `operation`, which issues work to the backend.
  template <class Operation>
  void time(OperationKind kind, const Operation& operation) {
    const Event start = backend_.record();
    operation();
    spans_.push_back({kind, start, backend_.record()});
  }

  /// Forgets what was timed.
  void restart() { spans_.clear(); }
  /// Time [s] by kind since the last call, or restart(). All of it must have been done: the backend
  /// was synchronized.
  [[nodiscard]] std::array<double, kNumOperationKinds> take() {
    std::array<double, kNumOperationKinds> seconds{};
    for (const TimedOperation& span : std::exchange(spans_, {})) {
      seconds[static_cast<std::size_t>(span.kind)] +=
          backend_.seconds_between(span.start, span.end);
    }
    return seconds;
  }

 private:
  struct TimedOperation {
    OperationKind kind = OperationKind::kMatmul;
    Event start;
    Event end;
  };

  Backend& backend_;
  std::vector<TimedOperation> spans_;
};

}  // namespace ptdp
