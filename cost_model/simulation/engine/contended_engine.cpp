// The event-driven engine: lanes, messages and collectives.
#include "cost_model/simulation/engine/contended_walk.h"

namespace ptdp {
namespace {

constexpr int kLinksPerRank = 4;  // out and in, within the node and across nodes

int link_of(int rank, bool is_within_node, bool is_in) {
  return rank * kLinksPerRank + (is_within_node ? 0 : 2) + (is_in ? 1 : 0);
}

}  // namespace

ContendedWalk::ContendedWalk(const Schedule& schedule, const StepTimes& times, SpansOut spans)
    : schedule_(schedule),
      times_(times),
      layout_(schedule),
      durations_(schedule, times),
      is_blocking_(times.messages == MessageMode::kBlocking),
      is_implied_(implies_messages(schedule)),
      has_message_lanes_(!is_blocking_ && !is_implied_),
      data_(times.data),
      spans_(spans),
      clock_(schedule.pp * kNumLanes, schedule.pp * kLinksPerRank),
      activities_(static_cast<std::size_t>(schedule.pp) * kNumLanes),
      ranks_(schedule.pp),
      chunks_(static_cast<std::size_t>(schedule.pp) * layout_.chunks_per_rank()) {
  made_.fill(std::vector<bool>(layout_.num_slots()));
  delivered_.fill(std::vector<bool>(is_implied_ ? 0 : layout_.num_slots()));
  messages_.fill(std::vector<Span>(spans_ == nullptr ? 0 : layout_.num_slots()));
  implied_arrivals_.fill(
      std::vector<double>(is_implied_ ? layout_.num_slots() : 0, EventQueue::kNever));
  for (int rank = 0; rank < schedule.pp; ++rank) {
    look_ahead(rank);
  }
}

SimulatedTimes ContendedWalk::run() {
  for (int rank = 0; rank < schedule_.pp; ++rank) {
    advance(rank);
  }
  while (const std::optional<int> id = clock_.next()) {
    handle(*id);
  }
  SimulatedTimes times;
  for (int rank = 0; rank < schedule_.pp; ++rank) {
    expect_done(rank);
    const Rank& state = ranks_[rank];
    times.ranks.push_back({.start = Seconds(state.start.value_or(0.0)),
                           .end = Seconds(state.end),
                           .work = Seconds(state.work),
                           .peak_activations = state.peak,
                           .compute_end = Seconds(state.compute_end),
                           .gathers = Seconds(state.gathers)});
  }
  if (spans_ != nullptr) {
    record_receives(schedule_, spans_, [&](const Action& receive) {
      return of(messages_,
                direction_of(receive.kind))[layout_.slot(receive.stage, receive.microbatch)];
    });
  }
  return times;
}

/// Counts the buckets of a rank's stages and finds the weight gradients that they stand behind.
void ContendedWalk::look_ahead(int rank) {
  const std::vector<Action>& order = schedule_.orders[rank];
  for (std::size_t position = 0; position < order.size(); ++position) {
    const Action& action = order[position];
    Chunk& chunk = chunk_of(action, rank);
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) {
      chunk.last_weight_gradient = position;
    } else if (action.kind == ActionKind::kReduceGradients) {
      ++chunk.num_buckets;
    } else if (action.kind == ActionKind::kGatherParameters) {
      ++chunk.num_gathers;
      ++chunk.num_missing;
    }
  }
}

// Functions here are inline for speed, which saves an eighth of the time.

/// Deals with the event of an activity.
inline void ContendedWalk::handle(int id) {
  const Activity& activity = activities_[id];
  const int rank = id / kNumLanes;
  switch (activity.phase) {
    case Phase::kIdle:
      break;
    case Phase::kWaitForInput:
      rest(id);
      advance(rank);
      break;
    case Phase::kCompute:
      compute_on(id, rank);
      break;
    case Phase::kRun: {
      LaneState& state = lane(rank, Lane::kCompute);
      rest(id);
      state.is_busy = false;
      record(rank, state.position++, activity.start);
      advance(rank);
      break;
    }
    case Phase::kLatency:
      if (id == id_of(rank, Lane::kData)) {
        begin_transfer(
            id, durations_.collective(schedule_.orders[rank][collective_lane(rank).position]), rank,
            !times_.data_is_across_nodes);
      } else {
        begin_transfer(id, durations_.message(rank, activity.receiver), activity.receiver,
                       durations_.is_within_node(rank, activity.receiver));
      }
      break;
    case Phase::kTransfer:
      finish_transfer(id);
      break;
  }
}

void ContendedWalk::advance(int rank) {
  if (data_ != DataMode::kBlocking) {
    advance_data(rank);
  }
  if (has_message_lanes_) {
    advance_messages(rank, Direction::kForward);
    advance_messages(rank, Direction::kBackward);
  }
  advance_compute(rank);
  if (times_.overlap_slowdown > 0.0) {
    const int id = id_of(rank, Lane::kCompute);
    if (activities_[id].phase == Phase::kCompute && !activities_[id].is_stalled) {
      clock_.set_rate(id, compute_rate(rank));
    }
  }
}

inline void ContendedWalk::advance_data(int rank) {
  LaneState& state = lane(rank, Lane::kData);
  const std::vector<Action>& order = schedule_.orders[rank];
  while (state.position < order.size() &&
         (!is_collective(order[state.position].kind) || !overlaps(order[state.position].kind))) {
    ++state.position;
  }
  if (state.is_busy || state.position == order.size()) {
    return;
  }
  const Action& action = order[state.position];
  if (action.kind == ActionKind::kReduceGradients &&
      chunk_of(action, rank).num_ready <= action.microbatch) {
    return;
  }
  collect(action, rank, state);
}

/// Starts a collective on its lane.
void ContendedWalk::collect(const Action& action, int rank, LaneState& state) {
  const int id = id_of(rank, Lane::kData);
  state.is_busy = true;
  activities_[id].start = clock_.now();
  start_phase(id, Phase::kLatency, durations_.collective(action).latency.value());
}

inline void ContendedWalk::advance_messages(int rank, Direction direction) {
  LaneState& state = lane(rank, lane_of(direction));
  const std::vector<Action>& order = schedule_.orders[rank];
  while (state.position < order.size() && (!is_send(order[state.position].kind) ||
                                           direction_of(order[state.position].kind) != direction)) {
    ++state.position;
  }
  if (!state.is_busy && state.position < order.size()) {
    send(order[state.position], rank, state);
  }
}

/// Starts to send what is made.
void ContendedWalk::send(const Action& action, int rank, LaneState& state) {
  const Direction direction = direction_of(action.kind);
  if (!of(made_, direction)[layout_.slot(action.stage, action.microbatch)]) {
    return;
  }
  state.is_busy = true;
  const int to = action.stage + (direction == Direction::kForward ? 1 : -1);
  const int id = id_of(rank, lane_of(direction));
  activities_[id].start = clock_.now();
  activities_[id].receiver = layout_.rank_of(to, action.microbatch);
  start_phase(id, Phase::kLatency,
              durations_.message(rank, activities_[id].receiver).latency.value());
}

inline void ContendedWalk::begin_transfer(int id, const TransferTime& time, int receiver,
                                          bool is_within_node) {
  activities_[id].phase = Phase::kTransfer;
  if (times_.shares_links && time.transfer > Seconds(0.0)) {
    clock_.start_flow(
        id, time.transfer.value(),
        {link_of(id / kNumLanes, is_within_node, false), link_of(receiver, is_within_node, true)});
  } else {
    clock_.start(id, time.transfer.value());
  }
}

inline void ContendedWalk::finish_transfer(int id) {
  const Activity activity = activities_[id];
  const int rank = id / kNumLanes;
  if (times_.shares_links && clock_.duration(id) > 0.0) {
    clock_.stop_flow(id);
  }
  rest(id);
  if (id == id_of(rank, Lane::kData)) {
    finish_collective(rank, activity.start);
  } else {
    const bool is_forward = id == id_of(rank, Lane::kForwardMessages);
    finish_message(rank, activity.receiver, is_forward ? Direction::kForward : Direction::kBackward,
                   activity.start);
  }
}

inline void ContendedWalk::finish_message(int sender, int receiver, Direction direction,
                                          double start) {
  LaneState& state = message_lane(sender, direction);
  const Action& action = schedule_.orders[sender][state.position];
  const int to = action.stage + (direction == Direction::kForward ? 1 : -1);
  const std::size_t slot = layout_.slot(to, action.microbatch);
  of(delivered_, direction)[slot] = true;
  if (spans_ != nullptr) {
    of(messages_, direction)[slot] = {Seconds(start), Seconds(clock_.now())};
  }
  record(sender, state.position++, start);
  state.is_busy = false;
  advance(sender);
  advance(receiver);
}

inline void ContendedWalk::finish_collective(int rank, double start) {
  LaneState& state = collective_lane(rank);
  const Action& action = schedule_.orders[rank][state.position];
  if (action.kind == ActionKind::kGatherParameters) {
    --chunk_of(action, rank).num_missing;
    use_gathered(rank);
    // Beside compute the rank begins once its first bucket is there, so only that bucket counts.
    double& gathers = ranks_[rank].gathers;
    gathers += !overlaps(action.kind) || gathers == 0.0 ? clock_.now() - start : 0.0;
  }
  record(rank, state.position++, start);
  state.is_busy = false;
  advance(rank);
}

void ContendedWalk::expect_done(int rank) const {
  std::optional<int> stuck;
  for (int i = 0; i < kNumLanes; ++i) {
    const LaneState& state = ranks_[rank].lanes[i];
    const Lane lane = static_cast<Lane>(i);
    const bool is_used = lane == Lane::kCompute ||
                         (lane == Lane::kData ? data_ != DataMode::kBlocking : has_message_lanes_);
    if (is_used && state.position < schedule_.orders[rank].size() && !stuck) {
      stuck = i;
    }
  }
  if (stuck) {
    throw_deadlock(schedule_, rank, ranks_[rank].lanes[*stuck].position, kLaneNames[*stuck]);
  }
}

SimulatedTimes simulate_contended(const Schedule& schedule, const StepTimes& times,
                                  SpansOut spans) {
  return ContendedWalk(schedule, times, spans).run();
}

}  // namespace ptdp
