// Dynamic loss scaling, without which small gradients vanish in fp16.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ptdp {

/// A dynamic loss scale. The loss is multiplied by scale() before the backward pass, and gradients
/// are divided by it before the step. A step whose gradients overflow is skipped and halves the
/// scale; a thousand good steps in a row double it. The scale is a function of that history alone,
/// so all ranks agree. Source: Micikevicius et al. (arXiv:1710.03740), section 3.2; numbers as
/// Megatron-LM's DynamicGradScaler with a hysteresis of 1 and PyTorch's GradScaler.
class LossScaler {
 public:
  static constexpr double kInitialScale = 0x1p16;
  static constexpr double kSmallestScale = 1.0;
  /// Largest scale, so that it stays finite when gradients vanish.
  static constexpr double kLargestScale = 0x1p32;
  /// Number of good steps in a row that double the scale.
  static constexpr std::int64_t kGrowthInterval = 1000;

  /// State of the scale that a checkpoint keeps.
  struct State {
    double scale = kInitialScale;
    std::int64_t good_steps = 0;  ///< Steps without overflow since the scale last changed.

    friend bool operator==(const State&, const State&) = default;
  };

  LossScaler() = default;
  explicit LossScaler(const State& state) : state_(state) {}

  [[nodiscard]] double scale() const { return state_.scale; }
  [[nodiscard]] const State& state() const { return state_; }

  /// Updates the scale once a step's gradients are known on all ranks.
  void update(bool has_overflowed) {
    if (has_overflowed) {
      state_ = {std::max(state_.scale / 2.0, kSmallestScale), 0};
    } else if (++state_.good_steps == kGrowthInterval) {
      state_ = {std::min(state_.scale * 2.0, kLargestScale), 0};
    }
  }

 private:
  State state_;
};

}  // namespace ptdp
