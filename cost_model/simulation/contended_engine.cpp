#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "cost_model/schedule/lane.h"
#include "cost_model/simulation/action_durations.h"
#include "cost_model/simulation/event_queue.h"
#include "cost_model/simulation/fair_share.h"
#include "cost_model/simulation/step_engines.h"
#include "cost_model/simulation/step_layout.h"

namespace ptdp {
namespace {

constexpr double kNever = EventQueue::kNever;
constexpr int kLinksPerRank = 4;  // out and in, within the node and across nodes

/// Where the transfer of a stage and microbatch is.
enum class Delivery : std::uint8_t { kNone, kAwaited, kDone };

class ContendedRun {
 public:
  ContendedRun(const Schedule& schedule, const StepTimes& times, SpansOut spans)
      : schedule_(schedule),
        times_(times),
        layout_(schedule),
        durations_(schedule, times),
        is_blocking_(times.messages == MessageMode::kBlocking),
        is_implied_(implies_messages(schedule)),
        has_message_lanes_(!is_blocking_ && !is_implied_),
        spans_(spans),
        ranks_(schedule.pp),
        chunks_(static_cast<std::size_t>(schedule.pp) * layout_.chunks_per_rank()),
        activities_(static_cast<std::size_t>(schedule.pp) * kNumLanes),
        events_(schedule.pp * kNumLanes),
        shares_(schedule.pp * kNumLanes, schedule.pp * kLinksPerRank) {
    made_.fill(std::vector<bool>(layout_.num_slots()));
    deliveries_.fill(std::vector<Delivery>(is_implied_ ? 0 : layout_.num_slots(), Delivery::kNone));
    implied_arrivals_.fill(std::vector<double>(is_implied_ ? layout_.num_slots() : 0, kNever));
    for (int rank = 0; rank < schedule.pp; ++rank) {
      look_ahead(rank);
    }
  }

  SimulatedTimes run() {
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      advance(rank);
    }
    share_links();
    while (events_.next_time() < kNever) {
      now_ = events_.next_time();
      while (events_.next_time() == now_) {
        handle(events_.next());
      }
      share_links();
    }
    SimulatedTimes times;
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      expect_done(rank);
      const Rank& state = ranks_[rank];
      times.ranks.push_back({.start = Seconds(state.start.value_or(0.0)),
                             .end = Seconds(state.end),
                             .work = Seconds(state.work),
                             .peak_activations = state.peak,
                             .compute_end = Seconds(state.compute_end)});
    }
    return times;
  }

 private:
  struct LaneState {
    std::size_t position = 0;  ///< Of the action on it, or before the next one.
    bool is_busy = false;
    bool is_waiting = false;  ///< For other ranks, one of which will start the action.
  };
  struct Rank {
    std::array<LaneState, kNumLanes> lanes;
    std::optional<double> start;
    double end = 0.0;
    double compute_end = 0.0;
    double work = 0.0;
    int live = 0;  ///< Activations held.
    int peak = 0;
  };
  /// One of a rank's stages.
  struct Chunk {
    std::size_t last_weight_gradient = 0;  ///< Its position.
    int num_buckets = 0;
    int num_ready = 0;    ///< Buckets that may be reduced.
    int num_missing = 0;  ///< Buckets of parameters that are to be gathered yet.
  };
  enum class Phase : std::uint8_t { kIdle, kWaitForInput, kRun, kLatency, kTransfer };
  /// What a lane does; of a message, on the sender's lane of its direction, wherever it blocks.
  struct Activity {
    double start = 0.0;
    double duration = 0.0;  ///< Of the phase, at rate 1 [s].
    double left = 0.0;      ///< Of that, at `updated`.
    double stop = 0.0;      ///< What is left at the next event.
    double updated = 0.0;
    double rate = 1.0;
    int receiver = 0;
    Phase phase = Phase::kIdle;
    bool is_compute = false;
  };
  /// Ranks that wait for others to come to the same action.
  using Meeting = std::vector<int>;

  static int id_of(int rank, Lane lane) { return rank * kNumLanes + static_cast<int>(lane); }
  static Lane lane_of(Direction direction) {
    return direction == Direction::kForward ? Lane::kForwardMessages : Lane::kBackwardMessages;
  }
  LaneState& lane(int rank, Lane lane) {
    return ranks_[rank].lanes[static_cast<std::size_t>(lane)];
  }
  /// The lane that a message occupies.
  LaneState& message_lane(int rank, Direction direction) {
    return lane(rank, is_blocking_ ? Lane::kCompute : lane_of(direction));
  }
  template <class T>
  static T& of(std::array<T, kNumDirections>& tables, Direction direction) {
    return tables[static_cast<std::size_t>(direction)];
  }

  void record(int rank, std::size_t position, double start) {
    ranks_[rank].end = now_;
    if (spans_ != nullptr) {
      (*spans_)[rank][position] = {Seconds(start), Seconds(now_)};
    }
  }

  /// Counts the buckets of a rank's stages and finds the weight gradients that they stand behind.
  void look_ahead(int rank) {
    const std::vector<Action>& order = schedule_.orders[rank];
    for (std::size_t position = 0; position < order.size(); ++position) {
      const Action& action = order[position];
      Chunk& chunk = chunks_[layout_.chunk_slot(action.stage, rank)];
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) {
        chunk.last_weight_gradient = position;
      } else if (action.kind == ActionKind::kReduceGradients) {
        ++chunk.num_buckets;
      } else if (action.kind == ActionKind::kGatherParameters) {
        ++chunk.num_missing;
      }
    }
  }

  // --- rates and events ---

  /// Starts a phase of an activity at rate 1, or stopped until its link is shared out.
  void begin(int id, Phase phase, double duration, double rate = 1.0) {
    Activity& activity = activities_[id];
    activity.phase = phase;
    activity.duration = duration;
    activity.left = duration;
    activity.stop = 0.0;
    activity.updated = now_;
    activity.rate = rate;
    plan_event(id);
  }

  void plan_event(int id) {
    const Activity& activity = activities_[id];
    const double rest = activity.left - activity.stop;
    events_.set(id, rest <= 0.0            ? now_
                    : activity.rate == 0.0 ? kNever
                                           : activity.updated + rest / activity.rate);
  }

  void set_rate(int id, double rate) {
    Activity& activity = activities_[id];
    if (activity.rate != rate) {
      activity.left -= (now_ - activity.updated) * activity.rate;
      activity.updated = now_;
      activity.rate = rate;
      plan_event(id);
    }
  }

  [[nodiscard]] double compute_rate(int rank) {
    return lane(rank, Lane::kData).is_busy ? 1.0 - times_.overlap_slowdown : 1.0;
  }

  void share_links() {
    if (times_.shares_links) {
      for (const int id : shares_.update()) {
        set_rate(id, shares_.rate(id));
      }
    }
  }

  [[nodiscard]] static int link(int rank, bool is_within_node, bool is_in) {
    return rank * kLinksPerRank + (is_within_node ? 0 : 2) + (is_in ? 1 : 0);
  }

  void begin_transfer(int id, const TransferTime& time, int receiver, bool is_within_node) {
    if (!times_.shares_links || time.transfer.value() <= 0.0) {
      begin(id, Phase::kTransfer, time.transfer.value());
      return;
    }
    begin(id, Phase::kTransfer, time.transfer.value(), 0.0);
    shares_.start(
        id, {link(id / kNumLanes, is_within_node, false), link(receiver, is_within_node, true)});
  }

  void handle(int id) {
    Activity& activity = activities_[id];
    const int rank = id / kNumLanes;
    const Lane on = static_cast<Lane>(id % kNumLanes);
    switch (activity.phase) {
      case Phase::kIdle:
        break;
      case Phase::kWaitForInput:
        rest(id);
        advance(rank);
        break;
      case Phase::kRun:
        activity.left = activity.stop;
        activity.updated = now_;
        run_on(id, rank);
        break;
      case Phase::kLatency:
        if (on == Lane::kData) {
          begin_transfer(id, durations_.collective(head(rank, on)), rank,
                         !times_.data_is_across_nodes);
        } else {
          begin_transfer(id, durations_.message(rank, activity.receiver), activity.receiver,
                         durations_.is_within_node(rank, activity.receiver));
        }
        break;
      case Phase::kTransfer:
        if (times_.shares_links && activity.duration > 0.0) {
          shares_.stop(id);
        }
        rest(id);
        if (on == Lane::kData) {
          finish_collective(rank, activity.start);
        } else {
          finish_message(rank, activity.receiver,
                         on == Lane::kForwardMessages ? Direction::kForward : Direction::kBackward,
                         activity.start);
        }
        break;
    }
  }

  void rest(int id) {
    activities_[id].phase = Phase::kIdle;
    events_.set(id, kNever);
  }

  const Action& head(int rank, Lane on) { return schedule_.orders[rank][lane(rank, on).position]; }

  // --- lanes ---

  /// Starts what can start on a rank.
  void advance(int rank) {
    advance_data(rank);
    if (has_message_lanes_) {
      advance_messages(rank, Direction::kForward);
      advance_messages(rank, Direction::kBackward);
    }
    advance_compute(rank);
    if (times_.overlap_slowdown > 0.0) {
      const int id = id_of(rank, Lane::kCompute);
      if (activities_[id].phase == Phase::kRun && activities_[id].is_compute) {
        set_rate(id, compute_rate(rank));
      }
    }
  }

  void advance_data(int rank) {
    LaneState& state = lane(rank, Lane::kData);
    const std::vector<Action>& order = schedule_.orders[rank];
    while (state.position < order.size() && !is_collective(order[state.position].kind)) {
      ++state.position;
    }
    if (state.is_busy || state.position == order.size()) {
      return;
    }
    const Action& action = order[state.position];
    if (action.kind == ActionKind::kReduceGradients &&
        chunks_[layout_.chunk_slot(action.stage, rank)].num_ready <= action.microbatch) {
      return;
    }
    const int id = id_of(rank, Lane::kData);
    state.is_busy = true;
    activities_[id].start = now_;
    begin(id, Phase::kLatency, durations_.collective(action).latency.value());
  }

  void advance_messages(int rank, Direction direction) {
    LaneState& state = lane(rank, lane_of(direction));
    const std::vector<Action>& order = schedule_.orders[rank];
    while (state.position < order.size() &&
           (!is_message(order[state.position].kind) ||
            direction_of(order[state.position].kind) != direction)) {
      ++state.position;
    }
    if (!state.is_busy && !state.is_waiting && state.position < order.size()) {
      exchange(order[state.position], rank, state);
    }
  }

  /// Sends or receives with a rank that waits for it; else waits for that rank, or for the data.
  void exchange(const Action& action, int rank, LaneState& state) {
    const Direction direction = direction_of(action.kind);
    const int step = direction == Direction::kForward ? 1 : -1;
    const bool sends = is_send(action.kind);
    if (sends && !of(made_, direction)[layout_.slot(action.stage, action.microbatch)]) {
      return;
    }
    const int to = sends ? action.stage + step : action.stage;
    Delivery& delivery = of(deliveries_, direction)[layout_.slot(to, action.microbatch)];
    if (delivery != Delivery::kAwaited) {
      delivery = Delivery::kAwaited;
      state.is_waiting = true;
      return;
    }
    const int other = layout_.rank_of(sends ? to : action.stage - step, action.microbatch);
    const int sender = sends ? rank : other;
    const int receiver = sends ? other : rank;
    for (const int side : {sender, receiver}) {
      message_lane(side, direction).is_busy = true;
      message_lane(side, direction).is_waiting = false;
    }
    const int id = id_of(sender, lane_of(direction));
    activities_[id].start = now_;
    activities_[id].receiver = receiver;
    begin(id, Phase::kLatency, durations_.message(sender, receiver).latency.value());
  }

  void finish_message(int sender, int receiver, Direction direction, double start) {
    const LaneState& on = message_lane(receiver, direction);
    const Action& receive = schedule_.orders[receiver][on.position];
    of(deliveries_, direction)[layout_.slot(receive.stage, receive.microbatch)] = Delivery::kDone;
    for (const int side : {sender, receiver}) {
      LaneState& state = message_lane(side, direction);
      record(side, state.position++, start);
      state.is_busy = false;
    }
    advance(sender);
    advance(receiver);
  }

  void finish_collective(int rank, double start) {
    LaneState& state = lane(rank, Lane::kData);
    const Action& action = schedule_.orders[rank][state.position];
    if (action.kind == ActionKind::kGatherParameters) {
      --chunks_[layout_.chunk_slot(action.stage, rank)].num_missing;
    }
    record(rank, state.position++, start);
    state.is_busy = false;
    advance(rank);
  }

  void advance_compute(int rank) {
    LaneState& state = lane(rank, Lane::kCompute);
    const std::vector<Action>& order = schedule_.orders[rank];
    bool is_moving = !state.is_waiting;
    while (is_moving && !state.is_busy && state.position < order.size()) {
      const Action& action = order[state.position];
      switch (action.kind) {
        case ActionKind::kForward:
        case ActionKind::kBackward:
        case ActionKind::kInputGradient:
        case ActionKind::kWeightGradient:
        case ActionKind::kRecompute:
          compute(action, rank, state);
          is_moving = false;
          break;
        case ActionKind::kSendForward:
        case ActionKind::kReceiveForward:
        case ActionKind::kSendBackward:
        case ActionKind::kReceiveBackward:
          if (is_blocking_) {
            exchange(action, rank, state);
            is_moving = false;
          } else {
            ++state.position;
          }
          break;
        case ActionKind::kCopyForward:
        case ActionKind::kCopyBackward:
          is_moving = copy(action, rank, state);
          break;
        case ActionKind::kReduceGradients:
        case ActionKind::kGatherParameters:
          ++state.position;
          break;
        case ActionKind::kReduceTied:
          meet(tied_, 2, durations_.tied().value(), rank);
          is_moving = false;
          break;
        case ActionKind::kReduceNorm:
          meet(norm_, schedule_.orders.size(), durations_.norm().value(), rank);
          is_moving = false;
          break;
        case ActionKind::kOptimizer:
          if (has_drained(rank)) {
            occupy(rank, durations_.optimizer(rank).value(), false);
          }
          is_moving = false;
          break;
      }
    }
  }

  /// Whether the data lane has done what stands before the action of the compute lane.
  bool has_drained(int rank) {
    return lane(rank, Lane::kData).position > lane(rank, Lane::kCompute).position;
  }

  /// Puts an action on the compute lane.
  void occupy(int rank, double duration, bool is_compute) {
    const int id = id_of(rank, Lane::kCompute);
    LaneState& state = lane(rank, Lane::kCompute);
    state.is_busy = true;
    state.is_waiting = false;
    activities_[id].start = now_;
    activities_[id].is_compute = is_compute;
    begin(id, Phase::kRun, duration, is_compute ? compute_rate(rank) : 1.0);
  }

  /// Comes to an action that `num_ranks` do together, and starts it where all have come.
  void meet(Meeting& meeting, std::size_t num_ranks, double duration, int rank) {
    if (!has_drained(rank)) {
      return;
    }
    lane(rank, Lane::kCompute).is_waiting = true;
    meeting.push_back(rank);
    if (meeting.size() == num_ranks) {
      for (const int other : meeting) {
        occupy(other, duration, false);
      }
      meeting.clear();
    }
  }

  bool copy(const Action& action, int rank, LaneState& state) {
    const Direction direction = direction_of(action.kind);
    const int from = action.stage - (direction == Direction::kForward ? 1 : -1);
    if (!of(made_, direction)[layout_.slot(from, action.microbatch)]) {
      return false;
    }
    of(deliveries_, direction)[layout_.slot(action.stage, action.microbatch)] = Delivery::kDone;
    record(rank, state.position++, now_);
    return true;
  }

  /// From when on an action of a stage has what it needs; kNever if that is not known yet.
  double input_time(const Action& action, int rank) {
    const std::size_t slot = layout_.slot(action.stage, action.microbatch);
    const bool is_forward = action.kind == ActionKind::kForward;
    if (is_forward && chunks_[layout_.chunk_slot(action.stage, rank)].num_missing > 0) {
      return kNever;
    }
    if ((is_forward && action.stage == 0) || action.kind == ActionKind::kWeightGradient ||
        action.kind == ActionKind::kRecompute) {
      return 0.0;
    }
    if (!is_forward && action.stage == layout_.last_stage()) {
      return of(made_, Direction::kForward)[slot] ? 0.0 : kNever;
    }
    const Direction direction = is_forward ? Direction::kForward : Direction::kBackward;
    if (is_implied_) {
      return of(implied_arrivals_, direction)[slot];
    }
    return of(deliveries_, direction)[slot] == Delivery::kDone ? 0.0 : kNever;
  }

  /// Starts an action or a pair, or waits for its inputs.
  void compute(const Action& action, int rank, const LaneState& state) {
    double ready = input_time(action, rank);
    double duration = durations_.compute(action, rank, state.position).value();
    if (action.overlaps_next) {
      const Action& partner = *(&action + 1);
      ready = std::max(ready, input_time(partner, rank));
      duration += durations_.compute(partner, rank, state.position + 1).value();
    }
    const int id = id_of(rank, Lane::kCompute);
    if (ready > now_) {
      activities_[id].phase = Phase::kWaitForInput;
      events_.set(id, ready);
      return;
    }
    if (!ranks_[rank].start) {
      ranks_[rank].start = now_;
    }
    occupy(rank, duration, true);
    plan_buckets(id, rank);
  }

  /// Has the next event of a compute action where a bucket of gradients gets ready.
  void plan_buckets(int id, int rank) {
    Activity& activity = activities_[id];
    activity.stop = 0.0;
    for_each_reducing(rank, [&](Chunk& chunk) {
      if (chunk.num_ready < chunk.num_buckets) {
        activity.stop = std::max(activity.stop, left_at(activity, chunk));
      }
    });
    plan_event(id);
  }

  /// What is left of an action when the next bucket of a stage gets ready.
  static double left_at(const Activity& activity, const Chunk& chunk) {
    const int num_behind = chunk.num_buckets - chunk.num_ready - 1;
    return activity.duration * num_behind / chunk.num_buckets;
  }

  /// Calls `visit` for each stage whose last weight gradient is on the compute lane.
  template <class Visit>
  void for_each_reducing(int rank, const Visit& visit) {
    const std::size_t position = lane(rank, Lane::kCompute).position;
    const std::vector<Action>& order = schedule_.orders[rank];
    const std::size_t end = position + (order[position].overlaps_next ? 2 : 1);
    for (std::size_t i = position; i < end; ++i) {
      Chunk& chunk = chunks_[layout_.chunk_slot(order[i].stage, rank)];
      if (chunk.num_buckets > 0 && chunk.last_weight_gradient == i && is_compute(order[i].kind)) {
        visit(chunk);
      }
    }
  }

  /// At an event of the compute lane: a bucket is ready, or the action is done.
  void run_on(int id, int rank) {
    const Activity& activity = activities_[id];
    if (activity.is_compute) {
      for_each_reducing(rank, [&](Chunk& chunk) {
        while (chunk.num_ready < chunk.num_buckets && left_at(activity, chunk) >= activity.left) {
          ++chunk.num_ready;
        }
      });
    }
    if (activity.left > 0.0) {
      plan_buckets(id, rank);
      advance(rank);
      return;
    }
    rest(id);
    LaneState& state = lane(rank, Lane::kCompute);
    const Action& action = schedule_.orders[rank][state.position];
    const bool is_pair = activity.is_compute && action.overlaps_next;
    state.is_busy = false;
    record(rank, state.position++, activity.start);
    if (is_pair) {
      record(rank, state.position++, activity.start);
    }
    if (activity.is_compute) {
      ranks_[rank].work += now_ - activity.start;
      ranks_[rank].compute_end = now_;
      finish(action, rank);
      if (is_pair) {
        finish(*(&action + 1), rank);
      }
    }
    advance(rank);
  }

  /// Notes the result of an action.
  void finish(const Action& action, int rank) {
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

  void make(const Action& action, int rank, Direction direction) {
    of(made_, direction)[layout_.slot(action.stage, action.microbatch)] = true;
    const int to = action.stage + (direction == Direction::kForward ? 1 : -1);
    if (!is_implied_ || to < 0 || to > layout_.last_stage()) {
      return;
    }
    const int receiver = layout_.rank_of(to, action.microbatch);
    double& arrival = of(implied_arrivals_, direction)[layout_.slot(to, action.microbatch)];
    arrival = now_;
    if (receiver != rank) {
      const TransferTime& message = durations_.message(rank, receiver);
      arrival += (message.latency + message.transfer).value();
      advance(receiver);
    }
  }

  void expect_done(int rank) const {
    std::optional<int> stuck;
    for (int i = 0; i < kNumLanes; ++i) {
      const LaneState& state = ranks_[rank].lanes[i];
      const Lane lane = static_cast<Lane>(i);
      const bool is_used = lane == Lane::kCompute || lane == Lane::kData || has_message_lanes_;
      // A message that a rank stands at comes before the action that may want what it carries.
      if (is_used && state.position < schedule_.orders[rank].size() &&
          (!stuck || (state.is_waiting && !ranks_[rank].lanes[*stuck].is_waiting))) {
        stuck = i;
      }
    }
    if (stuck) {
      throw_deadlock(schedule_, rank, ranks_[rank].lanes[*stuck].position, kLaneNames[*stuck]);
    }
  }

  const Schedule& schedule_;
  const StepTimes& times_;
  StepLayout layout_;
  ActionDurations durations_;
  bool is_blocking_;
  bool is_implied_;
  bool has_message_lanes_;
  SpansOut spans_;
  double now_ = 0.0;
  // By direction, stage and microbatch: whether F or the input gradient is done; where the message
  // to a stage is; when an implied one arrives.
  std::array<std::vector<bool>, kNumDirections> made_;
  std::array<std::vector<Delivery>, kNumDirections> deliveries_;
  std::array<std::vector<double>, kNumDirections> implied_arrivals_;
  std::vector<Rank> ranks_;
  std::vector<Chunk> chunks_;
  std::vector<Activity> activities_;  ///< By rank and lane.
  EventQueue events_;
  FairShare shares_;
  Meeting tied_;
  Meeting norm_;
};

}  // namespace

SimulatedTimes simulate_contended(const Schedule& schedule, const StepTimes& times,
                                  SpansOut spans) {
  return ContendedRun(schedule, times, spans).run();
}

}  // namespace ptdp
