// A zero-bubble schedule made for given durations.
#pragma once

#include <span>

#include "cost_model/schedule/generators/ticks.h"
#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// What a searched schedule is made for. One virtual stage per rank.
struct SearchedShape {
  int pp = 1;
  int num_microbatches = 1;
  std::span<const StageTicks> ticks = {};  ///< By stage; one stands for all; none: 1 each.
  int message_ticks = 0;                   ///< From the end of an action to its result elsewhere.
  int memory_limit = 1;                    ///< Activations that a rank may hold, at least 1.
  bool shortens_spans = false;  ///< Least in-span time of any rank counts before the makespan.
};

/// The fastest of a few list schedules, and of ZB-H1, ZB-H2 and 1F1B where the limit allows them:
/// least makespan, then least in-span time of any rank, or the other way round. A list schedule
/// lets every rank that is free start what it can: forward passes within the limit, input
/// gradients, and weight gradients where it would wait or has no memory left; they differ in what
/// goes first and how small a wait is filled. The search ends early where a lower bound is met.
/// Deterministic. Source: Qi et al., Zero Bubble Pipeline Parallelism (arXiv:2401.10241),
/// section 3.1, whose idea of a heuristic with a grid of choices this follows; the rules are ours.
[[nodiscard]] Schedule zb_auto(const SearchedShape& shape);

/// What no schedule of one stage per rank can beat [ticks]: every rank waits for its first input,
/// then does its work, waits for memory, and the last gradient goes back to the first rank.
[[nodiscard]] std::int64_t zb_makespan_bound(const SearchedShape& shape);

/// The same of the longest in-span time [ticks]: the work of the busiest rank.
[[nodiscard]] std::int64_t zb_span_bound(const SearchedShape& shape);

}  // namespace ptdp
