// What a job loses to the slowest of its GPUs, since all of them wait for it.
#pragma once

#include <cstdint>

namespace ptdp {

/// Returns how many standard deviations the slowest of `cards` lies above the mean of all, on
/// average. It is the largest of as many normal values: 0 of one, 1.43 of 8, 3.23 of 1000.
///
///   Φ⁻¹((n − 3/8)/(n + 1/4))
///
/// Source: Blom, Statistical Estimates and Transformed Beta-Variables, 1958. It is within 0.03 of
/// the exact values.
[[nodiscard]] double expected_largest_deviation(std::int64_t cards);

/// Returns the time of products and attention on the slowest of `cards` over that on a card of mean
/// speed, given how cards differ (GpuSpec::card_spread). It is rounded to 0.002, so that a search
/// shares what jobs of nearly as many cards cost.
[[nodiscard]] double slowest_card_factor(std::int64_t cards, double card_spread);

}  // namespace ptdp
