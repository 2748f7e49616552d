#include "cost_model/schedule/generators/zb_auto.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/generators/list_schedule.h"
#include "cost_model/schedule/generators/zero_bubble.h"
#include "cost_model/schedule/passes/communication.h"

namespace ptdp {
namespace {

/// Actions that a search may start before it ends: they take some 20 ms.
constexpr std::int64_t kSearchBudget = 400'000;

/// Tries schedules one by one and keeps the best.
class Search {
 public:
  explicit Search(const SearchedShape& shape)
      : shape_(shape),
        bound_(shape.shortens_spans ? zb_span_bound(shape) : zb_makespan_bound(shape)) {}

  PassLists run() {
    try_known();
    try_grid();
    improve();
    return std::move(best_lists_);
  }

 private:
  [[nodiscard]] bool is_over() const {
    const std::int64_t best = shape_.shortens_spans ? best_.longest_span : best_.makespan;
    return best <= bound_ || num_started_ >= kSearchBudget;
  }

  [[nodiscard]] bool is_better(Score a, Score b) const {
    if (shape_.shortens_spans) {
      std::swap(a.makespan, a.longest_span);
      std::swap(b.makespan, b.longest_span);
    }
    return a < b;
  }

  /// Returns the makespan beyond which a schedule cannot be better.
  [[nodiscard]] std::int64_t useful_makespan() const {
    return shape_.shortens_spans ? kNoEvent : base_.makespan;
  }

  void keep_if_best(const Score& score, PassLists lists) {
    if (is_better(score, best_)) {
      best_ = score;
      best_lists_ = std::move(lists);
    }
  }

  /// Tries ZB-H1, ZB-H2 and 1F1B, if the memory limit allows them.
  void try_known() {
    const int p = shape_.pp;
    const int m = shape_.num_microbatches;
    const auto consider = [&](int peak, const Schedule& schedule) {
      if (std::min(m, peak) <= shape_.memory_limit) {
        PassLists lists = lists_of(schedule);
        const Score score = score_of(shape_, lists);
        keep_if_best(score, std::move(lists));
      }
    };
    consider(p, zb_h1(p, m));
    consider(2 * p - 1, zb_h2(p, m));
    consider(p, split_backward(one_f_one_b({.pp = p, .num_microbatches = m})));
  }

  /// Returns how many forward passes a rank may be ahead of its input gradients. They last for a
  /// round trip to the last rank if the first rank's memory lasts for one; `extra` more are added.
  /// An `extra` above 1 allows any number.
  [[nodiscard]] int lead_limit(int rank, int extra) const {
    if (shape_.pp == 1 || extra > 1) {
      return shape_.memory_limit;
    }
    const std::int64_t behind = shape_.pp - 1 - rank;
    return static_cast<int>(1 + extra + behind * (shape_.memory_limit - 1) / (shape_.pp - 1));
  }

  /// Runs the list schedule of some choices; returns whether it beats the list schedules before it.
  bool try_choices(const std::vector<Choices>& choices) {
    ListScheduled schedule = list_schedule(shape_, choices, useful_makespan());
    num_started_ += schedule.num_started;
    if (!schedule.score || !is_better(*schedule.score, base_)) {
      return false;
    }
    base_ = *schedule.score;
    base_choices_ = choices;
    keep_if_best(base_, std::move(schedule.lists));
    return true;
  }

  /// Tries a grid of choices that all ranks share.
  void try_grid() {
    std::vector<Choices> choices(shape_.pp);
    for (const bool gradient_first : {false, true}) {
      for (const bool fills_small_gaps : {false, true}) {
        for (const int extra : {2, 0, 1}) {
          if (is_over()) {
            return;
          }
          for (int rank = 0; rank < shape_.pp; ++rank) {
            choices[rank] = {lead_limit(rank, extra), gradient_first, fills_small_gaps};
          }
          try_choices(choices);
        }
      }
    }
  }

  /// Changes one choice of one rank at a time, as long as one change helps.
  void improve() {
    const std::array<void (*)(Choices&), 4> changes = {
        [](Choices& choices) { ++choices.lead_limit; },
        [](Choices& choices) { choices.lead_limit = std::max(choices.lead_limit - 1, 1); },
        [](Choices& choices) { choices.gradient_first = !choices.gradient_first; },
        [](Choices& choices) { choices.fills_small_gaps = !choices.fills_small_gaps; }};
    for (bool helped = true; helped && !is_over();) {
      helped = false;
      for (int rank = 0; rank < shape_.pp; ++rank) {
        for (const auto change : changes) {
          if (is_over()) {
            return;
          }
          std::vector<Choices> choices = base_choices_;
          change(choices[rank]);
          helped = try_choices(choices) || helped;
        }
      }
    }
  }

  const SearchedShape& shape_;
  std::int64_t bound_;
  std::int64_t num_started_ = 0;
  Score best_;
  PassLists best_lists_;
  Score base_;  ///< Score of the best list schedule, which base_choices_ gave.
  std::vector<Choices> base_choices_;
};

}  // namespace

std::int64_t zb_makespan_bound(const SearchedShape& shape) {
  const std::int64_t m = shape.num_microbatches;
  const std::int64_t held = std::min<std::int64_t>(m, shape.memory_limit);
  const StageTicks& first = ticks_of(shape, 0);
  std::int64_t all_down = 0;  // a forward pass through all stages
  std::int64_t all_up = 0;    ///< an input gradient through all stages
  for (int rank = 0; rank < shape.pp; ++rank) {
    const int message = rank > 0 ? shape.message_ticks : 0;
    all_down += message + ticks_of(shape, rank).forward;
    all_up += message + ticks_of(shape, rank).input_gradient;
  }
  std::int64_t bound = 0;
  std::int64_t down = 0;  // until the first input of the rank is there
  std::int64_t up = 0;    // from the end of an input gradient of the rank to that of the first rank
  for (int rank = 0; rank < shape.pp; ++rank) {
    const StageTicks& ticks = ticks_of(shape, rank);
    const std::int64_t work =
        std::int64_t{ticks.forward} + ticks.input_gradient + ticks.weight_gradient;
    const std::int64_t first_gradient = all_down + all_up - up - ticks.input_gradient;
    const std::int64_t round_trip = all_down - down + all_up - up;
    const std::int64_t last_weights =
        rank == 0 ? held * ticks.weight_gradient : std::int64_t{first.weight_gradient};
    bound = std::max({bound, down + m * work, first_gradient + m * work - held * ticks.forward,
                      down + m * work - held * ticks.weight_gradient + up + last_weights,
                      down + (m + held - 1) / held * (round_trip + ticks.weight_gradient)});
    down += ticks.forward + shape.message_ticks;
    up += ticks.input_gradient + shape.message_ticks;
  }
  return bound;
}

std::int64_t zb_span_bound(const SearchedShape& shape) {
  std::int64_t bound = 0;
  for (int rank = 0; rank < shape.pp; ++rank) {
    const StageTicks& ticks = ticks_of(shape, rank);
    bound =
        std::max(bound, shape.num_microbatches * (std::int64_t{ticks.forward} +
                                                  ticks.input_gradient + ticks.weight_gradient));
  }
  return bound;
}

Schedule zb_auto(const SearchedShape& shape) {
  assert(shape.pp >= 1 && shape.num_microbatches >= 1 && shape.memory_limit >= 1);
  const PassLists lists = Search(shape).run();
  Schedule schedule = without_actions(ScheduleKind::kZbAuto,
                                      {.pp = shape.pp, .num_microbatches = shape.num_microbatches});
  for (int rank = 0; rank < shape.pp; ++rank) {
    std::array<int, 3> next = {};
    schedule.orders[rank].reserve(lists[rank].size());
    for (const Pass pass : lists[rank]) {
      constexpr std::array kinds = {ActionKind::kForward, ActionKind::kInputGradient,
                                    ActionKind::kWeightGradient};
      const auto kind = static_cast<std::size_t>(pass);
      schedule.orders[rank].push_back({kinds.at(kind), rank, next.at(kind)++});
    }
  }
  return schedule;
}

Schedule zb_auto_of_shape(const ScheduleShape& shape) {
  return zb_auto({.pp = shape.pp,
                  .num_microbatches = shape.num_microbatches,
                  .ticks = shape.ticks,
                  .message_ticks = shape.message_ticks,
                  .memory_limit = shape.memory_limit.value_or(shape.pp),
                  .shortens_spans = shape.shortens_spans});
}

}  // namespace ptdp
