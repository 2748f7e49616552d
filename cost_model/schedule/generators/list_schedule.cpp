#include "cost_model/schedule/generators/list_schedule.h"

#include <cstddef>
#include <functional>
#include <utility>

namespace ptdp {
namespace {

std::int64_t duration_of(const StageTicks& ticks, Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return ticks.forward;
    case Pass::kInput:
      return ticks.input_gradient;
    case Pass::kWeight:
      return ticks.weight_gradient;
  }
  return 0;
}

/// Makes one list schedule: ranks go on in the order of time, each starts what it can.
class ListSchedule {
 public:
  ListSchedule(const SearchedShape& shape, std::span<const Choices> choices)
      : shape_(shape),
        stride_(static_cast<std::size_t>(shape.num_microbatches)),
        forward_ends_(shape.pp * stride_),
        input_ends_(shape.pp * stride_),
        ranks_(shape.pp),
        lists_(shape.pp) {
    for (int rank = 0; rank < shape.pp; ++rank) {
      ranks_[rank].ticks = ticks_of(shape, rank);
      ranks_[rank].choices = choices[rank];
      lists_[rank].reserve(3 * stride_);
    }
  }

  ListScheduled run(std::int64_t limit) {
    schedule_event(0, 0);
    while (!events_.empty()) {
      const auto [time, rank] = events_.front();
      std::pop_heap(events_.begin(), events_.end(), std::greater<>());
      events_.pop_back();
      Rank& state = ranks_[rank];
      if (state.next_event != time) {
        continue;  // something came up earlier
      }
      state.next_event = kNoEvent;
      if (time + work_left(state) > limit) {
        return {std::nullopt, {}, num_started_};
      }
      decide(rank, time);
    }
    Score score{0, 0, 0};
    for (const Rank& rank : ranks_) {
      score.add_rank(rank.start, rank.free);
    }
    return {score, std::move(lists_), num_started_};
  }

 private:
  struct Rank {
    StageTicks ticks;
    Choices choices;
    int forwards = 0;
    int inputs = 0;
    int weights = 0;
    bool was_forward = false;  ///< Whether the last pass other than W was F.
    std::int64_t start = kNoEvent;
    std::int64_t free = 0;
    std::int64_t next_event = kNoEvent;
  };

  /// Returns the ticks of work that a rank has not started.
  [[nodiscard]] std::int64_t work_left(const Rank& rank) const {
    const std::int64_t m = shape_.num_microbatches;
    return (m - rank.forwards) * rank.ticks.forward +
           (m - rank.inputs) * rank.ticks.input_gradient +
           (m - rank.weights) * rank.ticks.weight_gradient;
  }

  void schedule_event(int rank, std::int64_t time) {
    if (time < ranks_[rank].next_event) {
      ranks_[rank].next_event = time;
      events_.emplace_back(time, rank);
      std::push_heap(events_.begin(), events_.end(), std::greater<>());
    }
  }

  [[nodiscard]] std::size_t slot(int rank, int microbatch) const {
    return rank * stride_ + microbatch;
  }

  /// Returns when the next forward pass can start, if memory allows one; kNoEvent when that is not
  /// known.
  [[nodiscard]] std::int64_t forward_ready(int rank) const {
    const Rank& state = ranks_[rank];
    if (state.forwards == shape_.num_microbatches) {
      return kNoEvent;
    }
    if (rank == 0) {
      return 0;
    }
    return ranks_[rank - 1].forwards > state.forwards
               ? forward_ends_[slot(rank - 1, state.forwards)] + shape_.message_ticks
               : kNoEvent;
  }

  /// Returns when the next input gradient can start; kNoEvent when that is not known.
  [[nodiscard]] std::int64_t input_ready(int rank) const {
    const Rank& state = ranks_[rank];
    if (state.inputs == state.forwards) {
      return kNoEvent;
    }
    if (rank + 1 == shape_.pp) {
      return forward_ends_[slot(rank, state.inputs)];
    }
    return ranks_[rank + 1].inputs > state.inputs
               ? input_ends_[slot(rank + 1, state.inputs)] + shape_.message_ticks
               : kNoEvent;
  }

  /// Starts what the rank does at `now`, or notes when to ask it again.
  void decide(int rank, std::int64_t now) {
    const Rank& state = ranks_[rank];
    const bool has_memory = state.forwards - state.weights < shape_.memory_limit;
    const bool has_weight = state.weights < state.inputs;
    const std::int64_t forward_at = forward_ready(rank);
    const bool may_lead = state.forwards - state.inputs < state.choices.lead_limit;
    const std::int64_t forward = has_memory && may_lead ? forward_at : kNoEvent;
    const std::int64_t input = input_ready(rank);
    if (input <= now && (forward > now || state.choices.gradient_first || state.was_forward)) {
      start(rank, now, Pass::kInput);
      return;
    }
    if (forward <= now) {
      start(rank, now, Pass::kForward);
      return;
    }
    const std::int64_t next = std::min(input, forward);
    const bool frees_memory = !has_memory && may_lead && forward_at <= now;
    if (has_weight && (frees_memory || state.choices.fills_small_gaps || next == kNoEvent ||
                       next - now >= state.ticks.weight_gradient)) {
      start(rank, now, Pass::kWeight);
    } else if (next != kNoEvent) {
      schedule_event(rank, next);
    }
  }

  void start(int rank, std::int64_t now, Pass pass) {
    Rank& state = ranks_[rank];
    const std::int64_t end = now + duration_of(state.ticks, pass);
    lists_[rank].push_back(pass);
    ++num_started_;
    state.start = std::min(state.start, now);
    state.free = end;
    schedule_event(rank, end);
    switch (pass) {
      case Pass::kForward:
        forward_ends_[slot(rank, state.forwards++)] = end;
        state.was_forward = true;
        announce(rank + 1, end);
        break;
      case Pass::kInput:
        input_ends_[slot(rank, state.inputs++)] = end;
        state.was_forward = false;
        announce(rank - 1, end);
        break;
      case Pass::kWeight:
        ++state.weights;
        break;
    }
  }

  /// Tells a neighbor rank that something for it will be made at `end`.
  void announce(int rank, std::int64_t end) {
    if (rank >= 0 && rank < shape_.pp) {
      schedule_event(rank, std::max(end + shape_.message_ticks, ranks_[rank].free));
    }
  }

  const SearchedShape& shape_;
  std::int64_t num_started_ = 0;
  std::size_t stride_;
  std::vector<std::int64_t> forward_ends_;  ///< Ends of forward passes, by rank and microbatch.
  std::vector<std::int64_t> input_ends_;
  std::vector<Rank> ranks_;
  PassLists lists_;
  /// A heap of times at which to ask a rank again.
  std::vector<std::pair<std::int64_t, int>> events_;
};

/// Runs given lists, every rank as early as its list allows.
class InOrder {
 public:
  InOrder(const SearchedShape& shape, const PassLists& lists)
      : shape_(shape),
        lists_(lists),
        stride_(static_cast<std::size_t>(shape.num_microbatches)),
        forward_ends_(shape.pp * stride_, kNoEvent),
        input_ends_(shape.pp * stride_, kNoEvent),
        ranks_(shape.pp) {}

  Score run() {
    for (bool moved = true; moved;) {
      moved = false;
      // The sweep goes down the ranks and up again, so that both directions travel far in it.
      for (int rank = 0; rank < shape_.pp; ++rank) {
        moved = advance(rank) || moved;
      }
      for (int rank = shape_.pp - 1; rank >= 0; --rank) {
        moved = advance(rank) || moved;
      }
    }
    Score score{0, 0, 0};
    for (const Rank& rank : ranks_) {
      score.add_rank(rank.start, rank.now);
    }
    return score;
  }

 private:
  struct Rank {
    std::size_t position = 0;
    int forwards = 0;
    int inputs = 0;
    std::int64_t start = kNoEvent;
    std::int64_t now = 0;
  };

  bool advance(int rank) {
    Rank& state = ranks_[rank];
    const StageTicks& ticks = ticks_of(shape_, rank);
    bool moved = false;
    while (state.position < lists_[rank].size()) {
      const Pass pass = lists_[rank][state.position];
      std::int64_t ready = 0;
      if (pass == Pass::kForward && rank > 0) {
        ready = forward_ends_[(rank - 1) * stride_ + state.forwards];
      } else if (pass == Pass::kInput && rank + 1 < shape_.pp) {
        ready = input_ends_[(rank + 1) * stride_ + state.inputs];
      }
      if (ready == kNoEvent) {
        break;
      }
      const std::int64_t begin = std::max(state.now, ready == 0 ? 0 : ready + shape_.message_ticks);
      state.start = std::min(state.start, begin);
      state.now = begin + duration_of(ticks, pass);
      if (pass == Pass::kForward) {
        forward_ends_[rank * stride_ + state.forwards++] = state.now;
      } else if (pass == Pass::kInput) {
        input_ends_[rank * stride_ + state.inputs++] = state.now;
      }
      ++state.position;
      moved = true;
    }
    return moved;
  }

  const SearchedShape& shape_;
  const PassLists& lists_;
  std::size_t stride_;
  std::vector<std::int64_t> forward_ends_;
  std::vector<std::int64_t> input_ends_;
  std::vector<Rank> ranks_;
};

}  // namespace

const StageTicks& ticks_of(const SearchedShape& shape, int rank) {
  static constexpr StageTicks one_each;
  if (shape.ticks.empty()) {
    return one_each;
  }
  return shape.ticks[shape.ticks.size() == 1 ? 0 : rank];
}

PassLists lists_of(const Schedule& schedule) {
  PassLists lists(schedule.pp);
  for (int rank = 0; rank < schedule.pp; ++rank) {
    lists[rank].reserve(schedule.orders[rank].size());
    for (const Action& action : schedule.orders[rank]) {
      lists[rank].push_back(action.kind == ActionKind::kForward         ? Pass::kForward
                            : action.kind == ActionKind::kInputGradient ? Pass::kInput
                                                                        : Pass::kWeight);
    }
  }
  return lists;
}

ListScheduled list_schedule(const SearchedShape& shape, std::span<const Choices> choices,
                            std::int64_t limit) {
  return ListSchedule(shape, choices).run(limit);
}

Score score_of(const SearchedShape& shape, const PassLists& lists) {
  return InOrder(shape, lists).run();
}

}  // namespace ptdp
