// Durations as whole numbers, for generators that search: equal numbers give equal schedules on
// every machine.
#pragma once

#include <compare>
#include <span>

#include "cost_model/units.h"

namespace ptdp {

/// How long the actions of one virtual stage take for one microbatch, in ticks. All positive.
struct StageTicks {
  int forward = 1;
  int input_gradient = 1;
  int weight_gradient = 1;

  friend auto operator<=>(const StageTicks&, const StageTicks&) = default;
};

/// The most ticks of a duration: a million microbatches of it still fit 64 bits.
inline constexpr int kMostTicks = 1'000'000'000;

/// A tick that suits these durations: 1 s where all are whole numbers of seconds up to a million,
/// as those without a unit are, else a ten-thousandth of the longest. Durations are positive.
[[nodiscard]] Seconds suitable_tick(std::span<const Seconds> durations);

/// The nearest number of ticks from `least` to kMostTicks.
[[nodiscard]] int in_ticks(Seconds duration, Seconds tick, int least = 1);

}  // namespace ptdp
