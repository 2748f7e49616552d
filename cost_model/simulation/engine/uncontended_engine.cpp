#include <algorithm>

#include "cost_model/simulation/engine/table_walk.h"

#include "cost_model/simulation/engine/uncontended_run.h"

namespace ptdp {

UncontendedRun::UncontendedRun(const Schedule& schedule, const StepTimes& times, SpansOut spans)
    : schedule_(schedule),
      layout_(schedule),
      durations_(schedule, times),
      is_blocking_(times.messages == MessageMode::kBlocking),
      is_implied_(implies_messages(schedule)),
      has_message_lanes_(!is_blocking_ && !is_implied_),
      data_(times.data),
      spans_(spans),
      ranks_(schedule.pp),
      chunks_(static_cast<std::size_t>(schedule.pp) * layout_.chunks_per_rank()) {
  made_.fill(Table(layout_.num_slots(), kNotThere));
  arrived_.fill(made_.front());
  if (spans_ != nullptr) {
    sent_.fill(made_.front());
  }
}

SimulatedTimes UncontendedRun::run() {
  for (int rank = schedule_.pp - 1; rank >= 0; --rank) {
    wake(rank);
  }
  while (!runnable_.empty()) {
    const int rank = runnable_.back();
    runnable_.pop_back();
    ranks_[rank].is_queued = false;
    advance(rank);
  }
  SimulatedTimes times;
  for (int rank = 0; rank < schedule_.pp; ++rank) {
    times.ranks.push_back(times_of(rank));
  }
  if (spans_ != nullptr) {
    record_receives(schedule_, spans_, [&](const Action& receive) {
      const Direction direction = direction_of(receive.kind);
      const std::size_t slot = layout_.slot(receive.stage, receive.microbatch);
      return Span{Seconds(sent_[static_cast<std::size_t>(direction)][slot]),
                  Seconds(arrived(direction)[slot])};
    });
  }
  return times;
}

// Inline, so that one loop without calls is made of them: a quarter of the time.

/// Does the actions of a rank until every lane has to wait.
inline void UncontendedRun::advance(int rank) {
  advance_compute(rank);
  if (has_message_lanes_) {
    advance_messages(rank, Direction::kForward);
    advance_messages(rank, Direction::kBackward);
  }
}

inline void UncontendedRun::advance_messages(int rank, Direction direction) {
  Lane& lane = ranks_[rank].messages[static_cast<std::size_t>(direction)];
  const std::vector<Action>& order = schedule_.orders[rank];
  bool is_moving = true;
  while (is_moving && lane.position < order.size()) {
    const Action& action = order[lane.position];
    if (is_send(action.kind) && direction_of(action.kind) == direction) {
      is_moving = send(action, rank, lane);
    } else {
      ++lane.position;
    }
  }
}

inline void UncontendedRun::advance_compute(int rank) {
  Rank& state = ranks_[rank];
  Lane& lane = state.compute;
  const std::vector<Action>& order = schedule_.orders[rank];
  bool is_moving = !lane.is_waiting;
  while (is_moving && lane.position < order.size()) {
    const Action& action = order[lane.position];
    __builtin_prefetch(order.data() + std::min(lane.position + kActionsAhead, order.size()));
    switch (action.kind) {
      case ActionKind::kForward:
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
      case ActionKind::kWeightGradient:
      case ActionKind::kRecompute:
        is_moving = compute(action, rank, state);
        break;
      case ActionKind::kReceiveForward:
      case ActionKind::kReceiveBackward:
        ++lane.position;
        break;
      case ActionKind::kSendForward:
      case ActionKind::kSendBackward:
        if (is_blocking_) {
          is_moving = send(action, rank, lane);
        } else {
          ++lane.position;
        }
        break;
      case ActionKind::kCopyForward:
      case ActionKind::kCopyBackward:
        is_moving = copy(action, rank, lane);
        break;
      case ActionKind::kReduceGradients:
      case ActionKind::kGatherParameters:
        collect(action, rank, state);
        break;
      case ActionKind::kReduceTied:
        is_moving = meet(tied_, durations_.ranks_that_meet(2), durations_.tied().value(), rank);
        break;
      case ActionKind::kReduceNorm:
        is_moving = meet(norm_, durations_.ranks_that_meet(schedule_.orders.size()),
                         durations_.norm().value(), rank);
        break;
      case ActionKind::kOptimizer:
        optimize(rank, state);
        break;
    }
  }
}

/// From when on an action of a stage has what it needs; nothing if that is not known yet.
inline std::optional<double> UncontendedRun::input_time(const Action& action, int rank) {
  const std::size_t slot = layout_.slot(action.stage, action.microbatch);
  double ready = 0.0;
  double* input = nullptr;
  switch (action.kind) {
    case ActionKind::kForward:
      ready = chunks_[layout_.chunk_slot(action.stage, rank)].first_gathered;
      input = action.stage == 0 ? nullptr : &arrived(Direction::kForward)[slot];
      break;
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
      input = action.stage == layout_.last_stage() ? &made(Direction::kForward)[slot]
                                                   : &arrived(Direction::kBackward)[slot];
      break;
    default:
      break;
  }
  if (input == nullptr) {
    return ready;
  }
  if (!is_there(*input)) {
    *input = kAwaited;
    return std::nullopt;
  }
  return std::max(ready, *input);
}

/// Does an action or a pair on the compute lane; false if it has to wait.
inline bool UncontendedRun::compute(const Action& action, int rank, Rank& state) {
  Lane& lane = state.compute;
  std::optional<double> ready = input_time(action, rank);
  if (!ready) {
    return false;
  }
  double duration = durations_.compute(action, rank, lane.position).value();
  const Action* partner = nullptr;
  if (action.overlaps_next) {
    partner = &action + 1;
    const std::optional<double> partner_ready = input_time(*partner, rank);
    if (!partner_ready) {
      return false;
    }
    ready = std::max(
        {*ready, *partner_ready, gathered_time(action, rank), gathered_time(*partner, rank)});
    duration += durations_.compute(*partner, rank, lane.position + 1).value();
  }
  const double start = std::max(lane.free, *ready);
  const double stall = gather_stall(action, rank, start, duration);
  lane.free = start + duration + stall;
  if (!state.start) {
    state.start = start;
  }
  state.compute_end = lane.free;
  state.work += duration + stall;
  record(rank, lane.position++, start, lane.free);
  finish(action, rank, state, {Seconds(start), Seconds(lane.free)});
  if (partner != nullptr) {
    record(rank, lane.position++, start, lane.free);
    finish(*partner, rank, state, {Seconds(start), Seconds(lane.free)});
  }
  return true;
}

/// When the last parameters of a forward pass are there.
inline double UncontendedRun::gathered_time(const Action& action, int rank) const {
  return action.kind == ActionKind::kForward
             ? chunks_[layout_.chunk_slot(action.stage, rank)].gathered
             : 0.0;
}

/// How long a forward pass waits on its way for parameters: its k-th n-th needs bucket k. Buckets
/// are gathered one after the other in equal times, so that it waits most at the first, before it
/// starts, or at the last.
inline double UncontendedRun::gather_stall(const Action& action, int rank, double start,
                                           double duration) {
  const Chunk& chunk = chunks_[layout_.chunk_slot(action.stage, rank)];
  if (action.kind != ActionKind::kForward || chunk.gathered <= start) {
    return 0.0;
  }
  const double end = chunk.gathered + duration / chunk.num_gathers;
  return std::max(end - (start + duration), 0.0);
}

/// Notes the result of an action.
inline void UncontendedRun::finish(const Action& action, int rank, Rank& state, Span span) {
  if (action.kind == ActionKind::kForward) {
    state.peak = std::max(state.peak, ++state.live);
    make(action, rank, Direction::kForward, span.end.value());
    return;
  }
  if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient) {
    make(action, rank, Direction::kBackward, span.end.value());
  }
  if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) {
    --state.live;
    chunks_[layout_.chunk_slot(action.stage, rank)].last_weight_gradient = span;
  }
}

inline void UncontendedRun::make(const Action& action, int rank, Direction direction, double end) {
  double& result = made(direction)[layout_.slot(action.stage, action.microbatch)];
  __builtin_prefetch(&result + StepLayout::kSlotsAhead, 1);
  result = end;
  const int to = action.stage + (direction == Direction::kForward ? 1 : -1);
  if (!is_implied_ || to < 0 || to > layout_.last_stage()) {
    return;
  }
  const int receiver = layout_.rank_of(to, action.microbatch);
  double arrival = end;
  if (receiver != rank) {
    const TransferTime& message = durations_.message(rank, receiver);
    arrival += message.total().value();
  }
  deliver(direction, to, action.microbatch, arrival);
}

/// Notes when a stage has its activations or gradient, and lets the rank that waits for it go on.
inline void UncontendedRun::deliver(Direction direction, int stage, int microbatch, double time) {
  double& arrival = arrived(direction)[layout_.slot(stage, microbatch)];
  __builtin_prefetch(&arrival + StepLayout::kSlotsAhead, 1);
  if (is_awaited(arrival)) {
    wake(layout_.rank_of(stage, microbatch));
  }
  arrival = time;
}

/// False if what it sends is not made yet.
inline bool UncontendedRun::send(const Action& action, int rank, Lane& lane) {
  const Direction direction = direction_of(action.kind);
  const double made_at = made(direction)[layout_.slot(action.stage, action.microbatch)];
  if (!is_there(made_at)) {
    return false;
  }
  const int to = action.stage + (direction == Direction::kForward ? 1 : -1);
  const TransferTime& message = durations_.message(rank, layout_.rank_of(to, action.microbatch));
  const double start = std::max(lane.free, made_at);
  lane.free = start + message.total().value();
  if (spans_ != nullptr) {
    sent_[static_cast<std::size_t>(direction)][layout_.slot(to, action.microbatch)] = start;
  }
  record(rank, lane.position++, start, lane.free);
  deliver(direction, to, action.microbatch, lane.free);
  return true;
}

inline bool UncontendedRun::copy(const Action& action, int rank, Lane& lane) {
  const Direction direction = direction_of(action.kind);
  const int from = action.stage - (direction == Direction::kForward ? 1 : -1);
  const double made_at = made(direction)[layout_.slot(from, action.microbatch)];
  if (!is_there(made_at)) {
    return false;
  }
  lane.free = std::max(lane.free, made_at);
  arrived(direction)[layout_.slot(action.stage, action.microbatch)] = lane.free;
  record(rank, lane.position++, lane.free, lane.free);
  return true;
}

SimulatedTimes simulate_uncontended(const Schedule& schedule, const StepTimes& times,
                                    SpansOut spans) {
  return UncontendedRun(schedule, times, spans).run();
}

}  // namespace ptdp
