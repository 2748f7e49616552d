// The event-driven engine: compute, and what else occupies the compute lane.
#include <algorithm>
#include <utility>

#include "cost_model/simulation/engine/contended_walk.h"

namespace ptdp {
namespace {

/// Returns what is left of an action when the next bucket of its stage gets ready [s].
double left_at_next_bucket(double duration, int num_buckets, int num_ready) {
  return duration * (num_buckets - num_ready - 1) / num_buckets;
}

}  // namespace

void ContendedWalk::advance_compute(int rank) {
  LaneState& state = lane(rank, Lane::kCompute);
  const std::vector<Action>& order = schedule_.orders[rank];
  bool is_moving = !state.is_waiting;
  while (is_moving && !state.is_busy && state.position < order.size()) {
    const Action& action = order[state.position];
    is_moving = false;
    switch (action.kind) {
      case ActionKind::kForward:
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
      case ActionKind::kWeightGradient:
      case ActionKind::kRecompute:
        compute(action, rank, state);
        break;
      case ActionKind::kSendForward:
      case ActionKind::kSendBackward:
        if (is_blocking_) {
          send(action, rank, state);
          break;
        }
        ++state.position;
        is_moving = true;
        break;
      case ActionKind::kReceiveForward:
      case ActionKind::kReceiveBackward:
        ++state.position;
        is_moving = true;
        break;
      case ActionKind::kReduceGradients:
      case ActionKind::kGatherParameters:
        if (!overlaps(action.kind)) {
          collect(action, rank, state);
          break;
        }
        ++state.position;
        is_moving = true;
        break;
      case ActionKind::kCopyForward:
      case ActionKind::kCopyBackward:
        is_moving = copy(action, rank, state);
        break;
      case ActionKind::kReduceTied:
        meet(tied_, durations_.ranks_that_meet(2), durations_.tied().value(), rank);
        break;
      case ActionKind::kReduceNorm:
        meet(norm_, durations_.ranks_that_meet(schedule_.orders.size()), durations_.norm().value(),
             rank);
        break;
      case ActionKind::kOptimizer:
        if (has_drained(rank)) {
          occupy(rank, Phase::kRun, durations_.optimizer(rank).value());
        }
        break;
    }
  }
}

// Functions here are inline for speed, which saves an eighth of the time.

/// Puts an action on the compute lane.
inline void ContendedWalk::occupy(int rank, Phase phase, double duration) {
  const int id = id_of(rank, Lane::kCompute);
  LaneState& state = lane(rank, Lane::kCompute);
  state.is_busy = true;
  state.is_waiting = false;
  activities_[id].start = clock_.now();
  start_phase(id, phase, duration, phase == Phase::kCompute ? compute_rate(rank) : 1.0);
}

/// Comes to an action that `num_ranks` ranks do together, and starts it once all have come.
inline void ContendedWalk::meet(Rendezvous& meeting, std::size_t num_ranks, double duration,
                                int rank) {
  if (!has_drained(rank)) {
    return;
  }
  lane(rank, Lane::kCompute).is_waiting = true;
  meeting.push_back(rank);
  if (meeting.size() == num_ranks) {
    for (const int other : meeting) {
      occupy(other, Phase::kRun, duration);
    }
    meeting.clear();
  }
}

inline bool ContendedWalk::copy(const Action& action, int rank, LaneState& state) {
  const Direction direction = direction_of(action.kind);
  const int from = action.stage - (direction == Direction::kForward ? 1 : -1);
  if (!of(made_, direction)[layout_.slot(from, action.microbatch)]) {
    return false;
  }
  if (!is_implied_) {
    of(delivered_, direction)[layout_.slot(action.stage, action.microbatch)] = true;
  }
  record(rank, state.position++, clock_.now());
  return true;
}

/// Returns from when on an action of a stage has what it needs [s]; kNever if that is not known
/// yet. Of its parameters a forward pass needs the first bucket, in a pair all.
inline double ContendedWalk::input_time(const Action& action, int rank, bool is_in_pair) {
  const std::size_t slot = layout_.slot(action.stage, action.microbatch);
  const bool is_forward = action.kind == ActionKind::kForward;
  if (is_forward) {
    const Chunk& chunk = chunk_of(action, rank);
    const int may_miss = is_in_pair ? 0 : std::max(chunk.num_gathers - 1, 0);
    if (chunk.num_missing > may_miss) {
      return EventQueue::kNever;
    }
  }
  if ((is_forward && action.stage == 0) || action.kind == ActionKind::kWeightGradient ||
      action.kind == ActionKind::kRecompute) {
    return 0.0;
  }
  if (!is_forward && action.stage == layout_.last_stage()) {
    return of(made_, Direction::kForward)[slot] ? 0.0 : EventQueue::kNever;
  }
  const Direction direction = is_forward ? Direction::kForward : Direction::kBackward;
  if (is_implied_) {
    return of(implied_arrivals_, direction)[slot];
  }
  return of(delivered_, direction)[slot] ? 0.0 : EventQueue::kNever;
}

/// Starts an action or a pair on the compute lane, or waits for its inputs.
inline void ContendedWalk::compute(const Action& action, int rank, const LaneState& state) {
  const int id = id_of(rank, Lane::kCompute);
  double ready = input_time(action, rank, action.overlaps_next);
  if (action.overlaps_next) {
    ready = std::max(ready, input_time(*(&action + 1), rank, true));
  }
  if (ready > clock_.now()) {
    activities_[id].phase = Phase::kWaitForInput;
    clock_.set_alarm(id, ready);
    return;
  }
  double duration = durations_.compute(action, rank, state.position).value();
  if (action.overlaps_next) {
    duration += durations_.compute(*(&action + 1), rank, state.position + 1).value();
  }
  if (!ranks_[rank].start) {
    ranks_[rank].start = clock_.now();
  }
  occupy(rank, Phase::kCompute, duration);
  if (!plan_gathers(id, rank)) {
    plan_buckets(id, rank);
  }
}

/// Calls `visit` for each stage whose last weight gradient is on the compute lane.
template <class Visit>
void ContendedWalk::for_each_reducing(int rank, const Visit& visit) {
  const std::size_t position = lane(rank, Lane::kCompute).position;
  const std::vector<Action>& order = schedule_.orders[rank];
  const std::size_t end = position + (order[position].overlaps_next ? 2 : 1);
  for (std::size_t i = position; i < end; ++i) {
    Chunk& chunk = chunk_of(order[i], rank);
    if (chunk.num_buckets > 0 && chunk.last_weight_gradient == i) {
      visit(chunk);
    }
  }
}

/// Makes the next event of a compute action come when a bucket of gradients gets ready.
inline void ContendedWalk::plan_buckets(int id, int rank) {
  double stop = 0.0;
  for_each_reducing(rank, [&](const Chunk& chunk) {
    if (chunk.num_ready < chunk.num_buckets) {
      stop = std::max(stop,
                      left_at_next_bucket(clock_.duration(id), chunk.num_buckets, chunk.num_ready));
    }
  });
  clock_.stop_at(id, stop);
}

/// Returns whether the compute lane has a forward pass whose parameters are not all there. If so,
/// its next event comes when it needs a bucket that is missing: its k-th n-th needs bucket k.
inline bool ContendedWalk::plan_gathers(int id, int rank) {
  const Action& action = head(rank, Lane::kCompute);
  if (action.kind != ActionKind::kForward) {
    return false;
  }
  const Chunk& chunk = chunk_of(action, rank);
  if (chunk.num_missing == 0) {
    return false;
  }
  clock_.stop_at(id, clock_.duration(id) * chunk.num_missing / chunk.num_gathers);
  return true;
}

/// Lets a forward pass go on whose parameters came.
void ContendedWalk::use_gathered(int rank) {
  const int id = id_of(rank, Lane::kCompute);
  Activity& activity = activities_[id];
  if (activity.phase != Phase::kCompute) {
    return;
  }
  if (std::exchange(activity.is_stalled, false)) {
    clock_.set_rate(id, compute_rate(rank));
  }
  if (!plan_gathers(id, rank)) {
    plan_buckets(id, rank);
  }
}

/// Notes which buckets are ready when `left` of a compute action is left.
inline void ContendedWalk::count_ready_buckets(int id, int rank, double left) {
  for_each_reducing(rank, [&](Chunk& chunk) {
    while (chunk.num_ready < chunk.num_buckets &&
           left_at_next_bucket(clock_.duration(id), chunk.num_buckets, chunk.num_ready) >= left) {
      ++chunk.num_ready;
    }
  });
}

/// Deals with an event of a compute action: it lacks parameters, buckets are ready, or it is done.
void ContendedWalk::compute_on(int id, int rank) {
  const double left = clock_.reach_stop(id);
  if (plan_gathers(id, rank)) {
    clock_.set_rate(id, 0.0);
    clock_.rest(id);
    activities_[id].is_stalled = true;
    return;
  }
  count_ready_buckets(id, rank, left);
  if (left > 0.0) {
    plan_buckets(id, rank);
    advance(rank);
  } else {
    finish_compute(id, rank);
  }
}

inline void ContendedWalk::finish_compute(int id, int rank) {
  const double start = activities_[id].start;
  LaneState& state = lane(rank, Lane::kCompute);
  const Action& action = schedule_.orders[rank][state.position];
  rest(id);
  state.is_busy = false;
  ranks_[rank].work += clock_.now() - start;
  ranks_[rank].compute_end = clock_.now();
  record(rank, state.position++, start);
  if (action.overlaps_next) {
    record(rank, state.position++, start);
  }
  note_result(action, rank);
  if (action.overlaps_next) {
    note_result(*(&action + 1), rank);
  }
  advance(rank);
}

inline void ContendedWalk::note_result(const Action& action, int rank) {
  Rank& state = ranks_[rank];
  if (action.kind == ActionKind::kForward) {
    state.peak = std::max(state.peak, ++state.live);
    make(action, rank, Direction::kForward);
  } else if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient) {
    make(action, rank, Direction::kBackward);
  }
  if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) {
    --state.live;
  }
}

inline void ContendedWalk::make(const Action& action, int rank, Direction direction) {
  of(made_, direction)[layout_.slot(action.stage, action.microbatch)] = true;
  const int to = action.stage + (direction == Direction::kForward ? 1 : -1);
  if (!is_implied_ || to < 0 || to > layout_.last_stage()) {
    return;
  }
  const int receiver = layout_.rank_of(to, action.microbatch);
  double& arrival = of(implied_arrivals_, direction)[layout_.slot(to, action.microbatch)];
  arrival = clock_.now();
  if (receiver != rank) {
    const TransferTime& message = durations_.message(rank, receiver);
    arrival += message.total().value();
    advance(receiver);
  }
}

}  // namespace ptdp
