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

/// Times operations by two events each, so that timing never waits for the device. Yet on a GPU
/// these cost 1 % of a step, so that a clock can be off.
class OperationClock {
 public:
  explicit OperationClock(Backend& backend) : backend_(backend) {}

  /// Runs `operation`, which issues work to the backend, between two recorded events if the clock
  /// is on.
  template <class Operation>
  void time(OperationKind kind, const Operation& operation) {
    if (!is_on_) {
      operation();
      return;
    }
    const Event start = backend_.record();
    operation();
    spans_.push_back({kind, start, backend_.record()});
  }

  /// Forgets all timed operations, and turns the clock on or off.
  void restart(bool is_on) {
    spans_.clear();
    is_on_ = is_on;
  }
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
  bool is_on_ = true;
  std::vector<TimedOperation> spans_;
};

}  // namespace ptdp
