// List schedules of forward passes, input and weight gradients, one stage per rank: what zb_auto
// searches among.
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

/// A rank's list as kinds alone: every kind takes the microbatches in their order.
enum class Pass : std::uint8_t { kForward, kInput, kWeight };
using PassLists = std::vector<std::vector<Pass>>;

/// Those of a schedule with one stage per rank whose backward passes are split.
[[nodiscard]] PassLists lists_of(const Schedule& schedule);

/// The durations of a rank's stage.
[[nodiscard]] const StageTicks& ticks_of(const SearchedShape& shape, int rank);

/// A time that is not known.
inline constexpr std::int64_t kNoEvent = std::numeric_limits<std::int64_t>::max();

/// What a rank prefers where it can choose.
struct Choices {
  int lead_limit = 0;             ///< Forward passes that it may be ahead of its input gradients.
  bool gradient_first = false;    ///< Of F and I that are both ready: I; else what was not last.
  bool fills_small_gaps = false;  ///< W even where something else is ready before it ends.
};

/// Less is better, the first difference counts.
struct Score {
  std::int64_t makespan = kNoEvent;
  std::int64_t longest_span = kNoEvent;
  std::int64_t sum_of_ends = kNoEvent;

  friend auto operator<=>(const Score&, const Score&) = default;

  void add_rank(std::int64_t start, std::int64_t end) {
    makespan = std::max(makespan, end);
    longest_span = std::max(longest_span, end - start);
    sum_of_ends += end;
  }
};

/// One list schedule.
struct ListScheduled {
  std::optional<Score> score;    ///< Nothing if it was given up.
  PassLists lists;               ///< Complete if it was not.
  std::int64_t num_started = 0;  ///< Actions.
};

/// Ranks in the order of time, each starts what it can and, by its choices, should. Given up once
/// it is clear that the makespan will exceed `limit`.
[[nodiscard]] ListScheduled list_schedule(const SearchedShape& shape,
                                          std::span<const Choices> choices, std::int64_t limit);

/// Every rank as early as its list allows. The lists must come to their end.
[[nodiscard]] Score score_of(const SearchedShape& shape, const PassLists& lists);

}  // namespace ptdp
