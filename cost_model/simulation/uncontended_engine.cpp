#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "cost_model/schedule/lane.h"
#include "cost_model/simulation/action_durations.h"
#include "cost_model/simulation/step_engines.h"
#include "cost_model/simulation/step_layout.h"

namespace ptdp {
namespace {

// A result in a table: there from a time on, or not there, and then perhaps with the time from
// which somebody waits for it. The sign tells the two apart, so that times stay exact.
constexpr double kNotThere = -std::numeric_limits<double>::quiet_NaN();
bool is_there(double result) {
  return !std::signbit(result);
}
bool is_awaited(double result) {
  return result <= 0.0;  // not NaN; asked where the result is not there
}

// How far ahead of a rank its actions are fetched: with a thousand ranks in turn, the processor
// does not see by itself that each one walks straight on.
constexpr std::size_t kActionsAhead = 8;

using Table = std::vector<double>;

class UncontendedRun {
 public:
  UncontendedRun(const Schedule& schedule, const StepTimes& times, SpansOut spans)
      : schedule_(schedule),
        layout_(schedule),
        durations_(schedule, times),
        is_blocking_(times.messages == MessageMode::kBlocking),
        is_implied_(implies_messages(schedule)),
        has_message_lanes_(!is_blocking_ && !is_implied_),
        spans_(spans),
        ranks_(schedule.pp),
        chunks_(static_cast<std::size_t>(schedule.pp) * layout_.chunks_per_rank()) {
    made_.fill(Table(layout_.num_slots(), kNotThere));
    arrived_.fill(made_.front());
  }

  SimulatedTimes run() {
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
      expect_done(rank);
      const Rank& state = ranks_[rank];
      double end = std::max(state.compute.free, state.data_free);
      for (const Lane& lane : state.messages) {
        end = std::max(end, lane.free);
      }
      times.ranks.push_back({.start = Seconds(state.start.value_or(0.0)),
                             .end = Seconds(end),
                             .work = Seconds(state.work),
                             .peak_activations = state.peak,
                             .compute_end = Seconds(state.compute_end)});
    }
    return times;
  }

 private:
  struct Lane {
    std::size_t position = 0;  ///< Of the next action on it, or one before that.
    double free = 0.0;         ///< End of the last [s].
    bool is_waiting = false;   ///< For the other side, which will move the position on.
  };
  struct Rank {
    Lane compute;
    std::array<Lane, kNumDirections> messages;  ///< Unused where messages block.
    double data_free = 0.0;
    std::optional<double> start;
    double compute_end = 0.0;
    double work = 0.0;
    int live = 0;  ///< Activations held.
    int peak = 0;
    bool is_queued = false;
  };
  /// One of a rank's stages.
  struct Chunk {
    double gathered = 0.0;      ///< When its parameters are there.
    Span last_weight_gradient;  ///< Of what has run.
    int num_buckets = 0;        ///< Once the first was met.
  };
  /// Ranks that wait for others to come to the same action.
  struct Meeting {
    std::vector<int> ranks = {};
    double latest = 0.0;
  };

  void wake(int rank) {
    if (!ranks_[rank].is_queued) {
      ranks_[rank].is_queued = true;
      runnable_.push_back(rank);
    }
  }

  void record(int rank, std::size_t position, double start, double end) {
    if (spans_ != nullptr) {
      (*spans_)[rank][position] = {Seconds(start), Seconds(end)};
    }
  }

  Table& made(Direction direction) { return made_[static_cast<std::size_t>(direction)]; }
  Table& arrived(Direction direction) { return arrived_[static_cast<std::size_t>(direction)]; }

  /// Does the actions of a rank until every lane has to wait.
  void advance(int rank) {
    bool has_moved = true;
    while (has_moved) {
      advance_compute(rank);
      has_moved = has_message_lanes_ &&
                  (static_cast<int>(advance_messages(rank, Direction::kForward)) |
                   static_cast<int>(advance_messages(rank, Direction::kBackward))) != 0;
    }
  }

  /// Whether it did anything.
  bool advance_messages(int rank, Direction direction) {
    Lane& lane = ranks_[rank].messages[static_cast<std::size_t>(direction)];
    const std::vector<Action>& order = schedule_.orders[rank];
    bool has_moved = false;
    while (lane.position < order.size() && !lane.is_waiting) {
      const Action& action = order[lane.position];
      if (!is_message(action.kind) || direction_of(action.kind) != direction) {
        ++lane.position;
      } else if (exchange(action, rank, lane)) {
        has_moved = true;
      } else {
        break;
      }
    }
    return has_moved;
  }

  void advance_compute(int rank) {
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
        case ActionKind::kSendForward:
        case ActionKind::kReceiveForward:
        case ActionKind::kSendBackward:
        case ActionKind::kReceiveBackward:
          if (is_blocking_) {
            is_moving = exchange(action, rank, lane);
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
          is_moving = meet(tied_, 2, durations_.tied().value(), rank);
          break;
        case ActionKind::kReduceNorm:
          is_moving = meet(norm_, schedule_.orders.size(), durations_.norm().value(), rank);
          break;
        case ActionKind::kOptimizer: {
          const double start = std::max(lane.free, state.data_free);
          lane.free = start + durations_.optimizer(rank).value();
          record(rank, lane.position++, start, lane.free);
          break;
        }
      }
    }
  }

  /// From when on an action of a stage has what it needs; nothing if that is not known yet.
  std::optional<double> input_time(const Action& action, int rank) {
    const std::size_t slot = layout_.slot(action.stage, action.microbatch);
    double ready = 0.0;
    double* input = nullptr;
    switch (action.kind) {
      case ActionKind::kForward:
        ready = chunks_[layout_.chunk_slot(action.stage, rank)].gathered;
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
      if (is_implied_) {
        *input = -0.0;  // awaited
      }
      return std::nullopt;
    }
    return std::max(ready, *input);
  }

  /// Does an action or a pair on the compute lane; false if it has to wait.
  bool compute(const Action& action, int rank, Rank& state) {
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
      ready = std::max(*ready, *partner_ready);
      duration += durations_.compute(*partner, rank, lane.position + 1).value();
    }
    const double start = std::max(lane.free, *ready);
    lane.free = start + duration;
    if (!state.start) {
      state.start = start;
    }
    state.compute_end = lane.free;
    state.work += duration;
    record(rank, lane.position++, start, lane.free);
    finish(action, rank, state, {Seconds(start), Seconds(lane.free)});
    if (partner != nullptr) {
      record(rank, lane.position++, start, lane.free);
      finish(*partner, rank, state, {Seconds(start), Seconds(lane.free)});
    }
    return true;
  }

  /// Notes the result of an action.
  void finish(const Action& action, int rank, Rank& state, Span span) {
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

  void make(const Action& action, int rank, Direction direction, double end) {
    double& result = made(direction)[layout_.slot(action.stage, action.microbatch)];
    __builtin_prefetch(&result + StepLayout::kSlotsAhead, 1);
    result = end;
    const int to = action.stage + (direction == Direction::kForward ? 1 : -1);
    if (!is_implied_ || to < 0 || to > layout_.last_stage()) {
      return;
    }
    const int receiver = layout_.rank_of(to, action.microbatch);
    double& arrival = arrived(direction)[layout_.slot(to, action.microbatch)];
    if (is_awaited(arrival)) {
      wake(receiver);
    }
    arrival = end;
    if (receiver != rank) {
      const TransferTime& message = durations_.message(rank, receiver);
      arrival += (message.latency + message.transfer).value();
    }
  }

  /// Sends or receives with a rank that waits for it; else waits for that rank, or for the data.
  bool exchange(const Action& action, int rank, Lane& lane) {
    const Direction direction = direction_of(action.kind);
    const int step = direction == Direction::kForward ? 1 : -1;
    const bool sends = is_send(action.kind);
    const int to = sends ? action.stage + step : action.stage;
    double ready = lane.free;
    if (sends) {
      const double made_at = made(direction)[layout_.slot(action.stage, action.microbatch)];
      if (!is_there(made_at)) {
        return false;
      }
      ready = std::max(ready, made_at);
    }
    double& arrival = arrived(direction)[layout_.slot(to, action.microbatch)];
    __builtin_prefetch(&arrival + StepLayout::kSlotsAhead, 1);
    if (!is_awaited(arrival)) {
      arrival = -ready;
      lane.is_waiting = true;
      return false;
    }
    const int other = layout_.rank_of(sends ? to : action.stage - step, action.microbatch);
    const TransferTime& message = durations_.message(rank, other);
    const double start = std::max(ready, -arrival);
    arrival = start + (message.latency + message.transfer).value();
    Rank& partner = ranks_[other];
    Lane& partner_lane =
        is_blocking_ ? partner.compute : partner.messages[static_cast<std::size_t>(direction)];
    for (const auto& [whose, at] : {std::pair(rank, &lane), std::pair(other, &partner_lane)}) {
      record(whose, at->position++, start, arrival);
      at->free = arrival;
      at->is_waiting = false;
    }
    wake(other);
    return true;
  }

  bool copy(const Action& action, int rank, Lane& lane) {
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

  /// A collective of the data lane. It needs nothing but what stands before it in the list, and
  /// only what stands behind it needs it: so it is done when compute comes by.
  void collect(const Action& action, int rank, Rank& state) {
    Chunk& chunk = chunks_[layout_.chunk_slot(action.stage, rank)];
    double start = state.data_free;
    if (action.kind == ActionKind::kReduceGradients) {
      if (chunk.num_buckets == 0) {
        count_buckets(rank, state.compute.position);
      }
      start = std::max(start, bucket_ready_time(chunk.last_weight_gradient, action.microbatch,
                                                chunk.num_buckets));
    }
    const TransferTime& time = durations_.collective(action);
    state.data_free = start + (time.latency + time.transfer).value();
    if (action.kind == ActionKind::kGatherParameters) {
      chunk.gathered = state.data_free;
    }
    record(rank, state.compute.position++, start, state.data_free);
  }

  static double bucket_ready_time(const Span& last, int bucket, int num_buckets) {
    return last.start.value() + (last.end - last.start).value() * (bucket + 1) / num_buckets;
  }

  /// Of all stages of the rank whose first bucket stands at `position` or behind it.
  void count_buckets(int rank, std::size_t position) {
    const std::vector<Action>& order = schedule_.orders[rank];
    for (; position < order.size(); ++position) {
      if (order[position].kind == ActionKind::kReduceGradients) {
        ++chunks_[layout_.chunk_slot(order[position].stage, rank)].num_buckets;
      }
    }
  }

  /// Comes to an action that `num_ranks` do together; false if others are to come yet.
  bool meet(Meeting& meeting, std::size_t num_ranks, double duration, int rank) {
    meeting.ranks.push_back(rank);
    meeting.latest = std::max({meeting.latest, ranks_[rank].compute.free, ranks_[rank].data_free});
    if (meeting.ranks.size() < num_ranks) {
      ranks_[rank].compute.is_waiting = true;
      return false;
    }
    for (const int other : meeting.ranks) {
      Lane& lane = ranks_[other].compute;
      lane.free = meeting.latest + duration;
      lane.is_waiting = false;
      record(other, lane.position++, meeting.latest, lane.free);
      wake(other);
    }
    meeting = {};
    return true;
  }

  /// Names a message that a rank stands at before the action that may want what it carries.
  void expect_done(int rank) const {
    const Rank& state = ranks_[rank];
    const std::size_t size = schedule_.orders[rank].size();
    for (const Lane& lane : state.messages) {
      if (lane.is_waiting) {
        throw_deadlock(schedule_, rank, lane.position,
                       &lane == state.messages.data() ? kLaneNames[1] : kLaneNames[2]);
      }
    }
    if (state.compute.position < size) {
      throw_deadlock(schedule_, rank, state.compute.position, kLaneNames[0]);
    }
    for (const Lane& lane : state.messages) {
      if (has_message_lanes_ && lane.position < size) {
        throw_deadlock(schedule_, rank, lane.position,
                       &lane == state.messages.data() ? kLaneNames[1] : kLaneNames[2]);
      }
    }
  }

  const Schedule& schedule_;
  StepLayout layout_;
  ActionDurations durations_;
  bool is_blocking_;
  bool is_implied_;
  bool has_message_lanes_;
  SpansOut spans_;
  // By direction, stage and microbatch: when F or the input gradient of a stage is done, and when a
  // stage has its activations or the gradient [s].
  std::array<Table, kNumDirections> made_;
  std::array<Table, kNumDirections> arrived_;
  std::vector<Rank> ranks_;
  std::vector<Chunk> chunks_;
  std::vector<int> runnable_;
  Meeting tied_;
  Meeting norm_;
};

}  // namespace

SimulatedTimes simulate_uncontended(const Schedule& schedule, const StepTimes& times,
                                    SpansOut spans) {
  return UncontendedRun(schedule, times, spans).run();
}

}  // namespace ptdp
