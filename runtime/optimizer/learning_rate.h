// The learning rate of every step: linear warm-up, then cosine decay.
#pragma once

#include <cassert>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace ptdp {

/// A schedule of learning rates over a whole training.
struct LearningRateSchedule {
  double maximum = 0.0;
  double minimum = 0.0;
  std::int64_t warm_up_steps = 0;
  /// Step at which the minimum is reached; 0 when the rate stays at the maximum.
  std::int64_t decay_steps = 0;
};

/// Returns the learning rate of step t, counted from 1, with w = warm_up_steps and D = decay_steps:
///
///   t ≤ w:      maximum · t/w
///   w < t < D:  minimum + (maximum − minimum) · (1 + cos(π(t − w)/(D − w)))/2
///   D ≤ t:      minimum
///
/// With D = 0 the rate stays at the maximum from step w on. Source: Megatron-LM,
/// core/optimizer_param_scheduler.py, get_lr with the style "cosine". Its first step has t = 0 and
/// learns nothing.
[[nodiscard]] inline double learning_rate(const LearningRateSchedule& schedule, std::int64_t step) {
  assert(step >= 1);
  const std::int64_t w = schedule.warm_up_steps;
  if (step <= w) {
    return schedule.maximum * static_cast<double>(step) / static_cast<double>(w);
  }
  if (schedule.decay_steps == 0) {
    return schedule.maximum;
  }
  if (step >= schedule.decay_steps) {
    return schedule.minimum;
  }
  const double progress =
      static_cast<double>(step - w) / static_cast<double>(schedule.decay_steps - w);
  return schedule.minimum + (schedule.maximum - schedule.minimum) * 0.5 *
                                (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace ptdp
