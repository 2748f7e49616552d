// Durations as whole numbers, for generators that search. Equal numbers give equal schedules on
// every machine.
#pragma once

#include <compare>
#include <span>

#include "cost_model/units.h"

namespace ptdp {

/// Ticks that the actions of one virtual stage take for one microbatch. All are positive.
struct StageTicks {
  int forward = 1;
  int input_gradient = 1;
  int weight_gradient = 1;

  friend auto operator<=>(const StageTicks&, const StageTicks&) = default;
};

/// The most ticks that a duration may have: a million microbatches of it still fit 64 bits.
inline constexpr int kMostTicks = 1'000'000'000;

/// Returns a tick that suits these durations, all positive. It is 1 s if all are whole numbers of
/// seconds up to a million, as those without a unit are; else a ten-thousandth of the longest.
[[nodiscard]] Seconds suitable_tick(std::span<const Seconds> durations);

/// Returns a duration as the nearest number of ticks from `least` to kMostTicks.
[[nodiscard]] int in_ticks(Seconds duration, Seconds tick, int least = 1);

}  // namespace ptdp
