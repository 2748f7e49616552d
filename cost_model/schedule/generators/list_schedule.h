// List schedules of forward passes, input and weight gradients, one stage per rank. zb_auto()
// searches among them.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "cost_model/schedule/generators/ticks.h"
#include "cost_model/schedule/generators/zb_auto.h"
#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// One entry of a rank's list, as a kind alone: every kind takes the microbatches in their order.
enum class Pass : std::uint8_t { kForward, kInput, kWeight };
/// The ranks' lists, by pipeline rank.
using PassLists = std::vector<std::vector<Pass>>;

/// Returns the lists of a schedule that has one stage per rank and splits its backward passes.
[[nodiscard]] PassLists lists_of(const Schedule& schedule);

/// Returns the durations of a rank's stage.
[[nodiscard]] const StageTicks& ticks_of(const SearchedShape& shape, int rank);

/// A time in ticks that is not known.
inline constexpr std::int64_t kNoEvent = std::numeric_limits<std::int64_t>::max();

/// What a rank prefers when it can choose what to start.
struct Choices {
  int lead_limit = 0;  ///< Forward passes by which the rank may be ahead of its input gradients.
  /// Whether I goes first when F and I are both ready; else the kind that did not run last.
  bool gradient_first = false;
  /// Whether W fills a gap even if something else is ready before it ends.
  bool fills_small_gaps = false;
};

/// How good a list schedule is [ticks]. Less is better; the first member that differs decides.
struct Score {
  /// End of the last action of any rank.
  std::int64_t makespan = kNoEvent;
  /// Longest time of a rank from its first start to its last end.
  std::int64_t longest_span = kNoEvent;
  /// Sum of the last ends of all ranks.
  std::int64_t sum_of_ends = kNoEvent;

  friend auto operator<=>(const Score&, const Score&) = default;

  void add_rank(std::int64_t start, std::int64_t end) {
    makespan = std::max(makespan, end);
    longest_span = std::max(longest_span, end - start);
    sum_of_ends += end;
  }
};

/// What list_schedule() found.
struct ListScheduled {
  std::optional<Score> score;    ///< Score of the schedule; nullopt if it was given up.
  PassLists lists;               ///< The ranks' lists; complete unless the schedule was given up.
  std::int64_t num_started = 0;  ///< Actions that were started.
};

/// Makes a list schedule: ranks go on in the order of time, and each starts what it can and, by its
/// choices, should. It is given up once it is clear that the makespan will exceed `limit` ticks.
[[nodiscard]] ListScheduled list_schedule(const SearchedShape& shape,
                                          std::span<const Choices> choices, std::int64_t limit);

/// Scores given lists, with every rank as early as its list allows. The lists must come to their
/// end.
[[nodiscard]] Score score_of(const SearchedShape& shape, const PassLists& lists);

}  // namespace ptdp
