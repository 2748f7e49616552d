// Searches for a zero-bubble schedule that suits given durations and a memory limit.
#pragma once

#include <span>

#include "cost_model/schedule/generators/ticks.h"
#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// What a schedule is searched for. It has one virtual stage per rank.
struct SearchedShape {
  int pp = 1;  ///< Pipeline ranks.
  int num_microbatches = 1;
  /// Durations by stage; one stands for all; none: 1 tick each.
  std::span<const StageTicks> ticks = {};
  int message_ticks = 0;  ///< Ticks from the end of an action until its result is on another rank.
  int memory_limit = 1;   ///< Activations that a rank may hold, at least 1.
  /// Whether the longest in-span time of a rank counts before the makespan.
  bool shortens_spans = false;
};

/// Returns the fastest of a few list schedules, and of ZB-H1, ZB-H2 and 1F1B if the memory limit
/// allows them. Fastest is least makespan, then least in-span time of any rank, or the other way
/// round (shortens_spans).
///
/// A list schedule lets every rank that is free start what it can: forward passes within the limit,
/// input gradients, and weight gradients when it would wait or has no memory left. List schedules
/// differ in what goes first and how small a wait is filled. The search ends early when a lower
/// bound is met. It is deterministic.
///
/// Source: Qi et al., Zero Bubble Pipeline Parallelism (arXiv:2401.10241), section 3.1. This
/// follows its idea of a heuristic with a grid of choices; the rules are ours.
[[nodiscard]] Schedule zb_auto(const SearchedShape& shape);

/// Returns a lower bound of the makespan of any schedule with one stage per rank [ticks]. Every
/// rank waits for its first input, then does its work and waits for memory, and the last gradient
/// goes back to the first rank.
[[nodiscard]] std::int64_t zb_makespan_bound(const SearchedShape& shape);

/// Returns a lower bound of the longest in-span time of a rank [ticks]: the work of the busiest
/// rank.
[[nodiscard]] std::int64_t zb_span_bound(const SearchedShape& shape);

}  // namespace ptdp
