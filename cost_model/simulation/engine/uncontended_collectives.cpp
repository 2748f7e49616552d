// The engine without a clock: what happens once per step, such as buckets, norm and optimizer.
#include <algorithm>

#include "cost_model/simulation/engine/uncontended_walk.h"

namespace ptdp {
namespace {

double bucket_ready_time(const Span& last, int bucket, int num_buckets) {
  return last.start.value() + last.length().value() * (bucket + 1) / num_buckets;
}

}  // namespace

/// Does a collective, on the data lane if it does not block. It needs nothing but what stands
/// before it in the list, and only what stands behind it needs it. So it is done when compute comes
/// by.
void UncontendedWalk::collect(const Action& action, int rank, Rank& state) {
  Chunk& chunk = chunks_[layout_.chunk_slot(action.stage, rank)];
  const bool blocks = lane_of(action.kind, MessageMode::kBlocking, data_) == ptdp::Lane::kCompute;
  double start = blocks ? state.compute.free : state.data_free;
  if (action.kind == ActionKind::kReduceGradients) {
    if (chunk.num_buckets == 0) {
      count_buckets(rank, state.compute.position);
    }
    start = std::max(
        start, bucket_ready_time(chunk.last_weight_gradient, action.microbatch, chunk.num_buckets));
  }
  const TransferTime& time = durations_.collective(action);
  state.data_free = start + time.total().value();
  if (blocks) {
    state.compute.free = state.data_free;
  }
  if (action.kind == ActionKind::kGatherParameters) {
    // Beside compute the rank begins once its first bucket is there, so only that bucket counts.
    state.gathers += blocks || state.gathers == 0.0 ? state.data_free - start : 0.0;
    chunk.gathered = state.data_free;
    chunk.first_gathered = chunk.num_gathers == 0 ? chunk.gathered : chunk.first_gathered;
    ++chunk.num_gathers;
  }
  record(rank, state.compute.position++, start, state.data_free);
}

/// Counts the buckets of all stages of the rank whose first bucket stands at `position` or behind
/// it.
void UncontendedWalk::count_buckets(int rank, std::size_t position) {
  const std::vector<Action>& order = schedule_.orders[rank];
  for (; position < order.size(); ++position) {
    if (order[position].kind == ActionKind::kReduceGradients) {
      ++chunks_[layout_.chunk_slot(order[position].stage, rank)].num_buckets;
    }
  }
}

/// Comes to an action that `num_ranks` ranks do together; returns false if others are to come yet.
bool UncontendedWalk::meet(Rendezvous& meeting, std::size_t num_ranks, double duration, int rank) {
  meeting.ranks.push_back(rank);
  meeting.latest = std::max({meeting.latest, ranks_[rank].compute.free, ranks_[rank].data_free});
  if (meeting.ranks.size() < num_ranks) {
    ranks_[rank].is_waiting = true;
    return false;
  }
  for (const int other : meeting.ranks) {
    Lane& lane = ranks_[other].compute;
    lane.free = meeting.latest + duration;
    ranks_[other].is_waiting = false;
    record(other, lane.position++, meeting.latest, lane.free);
    wake(other);
  }
  meeting = {};
  return true;
}

void UncontendedWalk::optimize(int rank, Rank& state) {
  Lane& lane = state.compute;
  const double start = std::max(lane.free, state.data_free);
  lane.free = start + durations_.optimizer(rank).value();
  record(rank, lane.position++, start, lane.free);
}

/// Returns the times of a rank that has done all it could. Throws Error if that is not everything.
RankTimes UncontendedWalk::times_of(int rank) const {
  const Rank& state = ranks_[rank];
  const std::size_t size = schedule_.orders[rank].size();
  if (state.compute.position < size) {
    throw_deadlock(schedule_, rank, state.compute.position, kLaneNames[0]);
  }
  for (std::size_t i = 0; i < state.messages.size() && has_message_lanes_; ++i) {
    if (state.messages[i].position < size) {
      throw_deadlock(schedule_, rank, state.messages[i].position, kLaneNames[i + 1]);
    }
  }
  const double last = std::max(
      {state.compute.free, state.messages[0].free, state.messages[1].free, state.data_free});
  return {.start = Seconds(state.start),
          .end = Seconds(last),
          .work = Seconds(state.compute.work),
          .peak_activations = state.compute.peak,
          .compute_end = Seconds(state.compute_end),
          .gathers = Seconds(state.gathers)};
}

}  // namespace ptdp
