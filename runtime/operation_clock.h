// Measures how long a rank computes, by kind of operation.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace ptdp {

/// Kinds of operations timed apart. The rest of an action is limited by memory bandwidth.
enum class OperationKind : std::uint8_t { kMatmul, kAttention };
/// Number of enumerators of OperationKind.
inline constexpr int kNumOperationKinds = 2;

/// Times operations by two events each, so that timing never waits for the device.
class OperationClock {
 public:
  explicit OperationClock(Backend& backend) : backend_(backend) {}

  /// Runs `operation`, which issues work to the backend, between two recorded events.
  template <class Operation>
  void time(OperationKind kind, const Operation& operation) {
    const Event start = backend_.record();
    operation();
    spans_.push_back({kind, start, backend_.record()});
  }

  /// Forgets all timed operations.
  void restart() { spans_.clear(); }
  /// Returns the time [s] by OperationKind of operations timed since the last take() or restart().
  /// The backend must have been synchronized, so that all of them are done.
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
