// The engine without a clock: compute and messages.
#include <algorithm>
#include <span>

#include "cost_model/simulation/engine/step_simulator.h"
#include "cost_model/simulation/engine/uncontended_walk.h"

namespace ptdp {
namespace {

/// How far ahead of a rank its actions are fetched. With a thousand ranks in turn, the processor
/// does not see by itself that each one walks straight on.
constexpr std::size_t kActionsAhead = 8;

}  // namespace

UncontendedWalk::UncontendedWalk(const Schedule& schedule, const StepTimes& times, Extent extent,
                                 SpansOut spans)
    : schedule_(schedule),
      layout_(schedule),
      durations_(schedule, times),
      extent_(extent),
      is_blocking_(times.messages == MessageMode::kBlocking),
      is_implied_(extent == Extent::kPasses || implies_messages(schedule)),
      has_message_lanes_(!is_blocking_ && !is_implied_),
      data_(times.data),
      spans_(spans),
      ranks_(schedule.pp),
      chunks_(static_cast<std::size_t>(schedule.pp) * layout_.chunks_per_rank()) {
  const auto clear = [&](std::array<Table, kNumDirections>& tables) {
    for (Table& table : tables) {
      table.assign(layout_.num_slots(), kNotThere);
    }
  };
  clear(made_);
  if (!is_implied_) {
    clear(arrived_);
  }
  if (spans_ != nullptr) {
    clear(sent_);
  }
}

SimulatedTimes UncontendedWalk::run() {
  for (int rank = schedule_.pp - 1; rank >= 0; --rank) {
    wake(rank);
  }
  if (extent_ == Extent::kPasses) {
    advance_all<Extent::kPasses>();
  } else {
    advance_all<Extent::kStep>();
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

/// Does the actions of all ranks, each rank's until every lane of it has to wait.
template <Extent kExtent>
void UncontendedWalk::advance_all() {
  while (!runnable_.empty()) {
    const int rank = runnable_.back();
    runnable_.pop_back();
    ranks_[rank].is_queued = false;
    if constexpr (kExtent == Extent::kPasses) {
      advance_passes(rank);
      continue;
    }
    advance_compute(rank);
    if (has_message_lanes_) {
      advance_messages(rank, Direction::kForward);
      advance_messages(rank, Direction::kBackward);
    }
  }
}

inline void UncontendedWalk::advance_messages(int rank, Direction direction) {
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

inline void UncontendedWalk::advance_passes(int rank) {
  // a copy in registers, as nothing else changes it meanwhile
  ComputeLane lane = ranks_[rank].compute;
  const std::span<const Action> order = schedule_.orders[rank];
  bool is_moving = true;
  while (is_moving && lane.position < order.size()) {
    __builtin_prefetch(order.data() + std::min(lane.position + kActionsAhead, order.size()));
    is_moving = compute<Extent::kPasses>(order[lane.position], rank, lane);
  }
  ranks_[rank].compute = lane;
  ranks_[rank].compute_end = lane.free;
}

inline void UncontendedWalk::advance_compute(int rank) {
  Rank& state = ranks_[rank];
  ComputeLane& lane = state.compute;
  const std::vector<Action>& order = schedule_.orders[rank];
  bool is_moving = !state.is_waiting;
  while (is_moving && lane.position < order.size()) {
    const Action& action = order[lane.position];
    __builtin_prefetch(order.data() + std::min(lane.position + kActionsAhead, order.size()));
    switch (action.kind) {
      case ActionKind::kForward:
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
      case ActionKind::kWeightGradient:
      case ActionKind::kRecompute:
        is_moving = compute<Extent::kStep>(action, rank, lane);
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

/// Returns what an action needs besides parameters.
template <Extent kExtent>
inline UncontendedWalk::Input UncontendedWalk::input_of(const Action& action,
                                                        const ActionDurations::Passes& passes) {
  const std::size_t slot = layout_.slot(action.stage, action.microbatch);
  const bool is_implied = kExtent == Extent::kPasses || is_implied_;
  switch (action.kind) {
    case ActionKind::kForward:
      if (action.stage == 0) {
        break;
      }
      if (is_implied) {
        return {&made(Direction::kForward)[slot - layout_.stride()], passes.from_stage_before};
      }
      return {&arrived(Direction::kForward)[slot]};
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
      if (action.stage == layout_.last_stage()) {
        return {&made(Direction::kForward)[slot]};
      }
      if (is_implied) {
        return {&made(Direction::kBackward)[slot + layout_.stride()], passes.from_stage_behind};
      }
      return {&arrived(Direction::kBackward)[slot]};
    default:
      break;
  }
  return {&always_};
}

/// Does an action or a pair on the compute lane; returns false if it has to wait.
template <Extent kExtent>
inline bool UncontendedWalk::compute(const Action& action, int rank, ComputeLane& lane) {
  constexpr bool is_step = kExtent == Extent::kStep;
  const auto duration_of = [&](const Action& of, const ActionDurations::Passes& passes) {
    return is_step && durations_.depends_on_position()
               ? durations_.compute(of, rank, lane.position + (&of - &action)).value()
               : passes.duration_of(of.kind);
  };
  const ActionDurations::Passes& passes = durations_.passes_with(action);
  const Input input = input_of<kExtent>(action, passes);
  if (!is_there(*input.result)) {
    *input.result = kAwaited;
    return false;
  }
  double ready = *input.result + input.latency;
  double duration = duration_of(action, passes);
  const Action* partner = nullptr;
  if (action.overlaps_next) {
    partner = &action + 1;
    const ActionDurations::Passes& beside = durations_.passes_with(*partner);
    const Input other = input_of<kExtent>(*partner, beside);
    if (!is_there(*other.result)) {
      *other.result = kAwaited;
      return false;
    }
    ready = std::max(ready, *other.result + other.latency);
    duration += duration_of(*partner, beside);
  }
  if constexpr (is_step) {
    ready = std::max(ready, partner == nullptr ? first_gathered_time(action, rank)
                                               : std::max(gathered_time(action, rank),
                                                          gathered_time(*partner, rank)));
  }
  const double start = std::max(lane.free, ready);
  lane.free = start + duration;
  if constexpr (is_step) {
    const double stall = gather_stall(action, rank, start, duration);
    lane.free += stall;
    duration += stall;
    ranks_[rank].compute_end = lane.free;
  }
  lane.work += duration;
  if (lane.peak == 0) {
    ranks_[rank].start = start;  // start of a forward pass: each rank begins with one
  }
  finish<kExtent>(action, rank, lane, start);
  if (partner != nullptr) {
    finish<kExtent>(*partner, rank, lane, start);
  }
  return true;
}

/// Returns when the first parameters of a forward pass are there; 0 for other actions.
inline double UncontendedWalk::first_gathered_time(const Action& action, int rank) const {
  return action.kind == ActionKind::kForward
             ? chunks_[layout_.chunk_slot(action.stage, rank)].first_gathered
             : 0.0;
}

/// Returns when the last parameters of a forward pass are there; 0 for other actions.
inline double UncontendedWalk::gathered_time(const Action& action, int rank) const {
  return action.kind == ActionKind::kForward
             ? chunks_[layout_.chunk_slot(action.stage, rank)].gathered
             : 0.0;
}

/// Returns how long a forward pass waits on its way for parameters: its k-th n-th needs bucket k.
/// Buckets are gathered one after the other in equal times. So it waits most at the first, before
/// it starts, or at the last.
inline double UncontendedWalk::gather_stall(const Action& action, int rank, double start,
                                            double duration) {
  const Chunk& chunk = chunks_[layout_.chunk_slot(action.stage, rank)];
  if (action.kind != ActionKind::kForward || chunk.gathered <= start) {
    return 0.0;
  }
  const double end = chunk.gathered + duration / chunk.num_gathers;
  return std::max(end - (start + duration), 0.0);
}

/// Notes the result of an action that occupies its lane until the lane is free.
template <Extent kExtent>
inline void UncontendedWalk::finish(const Action& action, int rank, ComputeLane& lane,
                                    double start) {
  if constexpr (kExtent == Extent::kStep) {
    record(rank, lane.position, start, lane.free);
  }
  ++lane.position;
  if (action.kind == ActionKind::kForward) {
    lane.peak = std::max(lane.peak, ++lane.live);
    make(action, Direction::kForward, lane.free);
    return;
  }
  if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient) {
    make(action, Direction::kBackward, lane.free);
  }
  if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) {
    --lane.live;
    if constexpr (kExtent == Extent::kStep) {
      chunks_[layout_.chunk_slot(action.stage, rank)].last_weight_gradient = {Seconds(start),
                                                                              Seconds(lane.free)};
    }
  }
}

inline void UncontendedWalk::make(const Action& action, Direction direction, double end) {
  double& result = made(direction)[layout_.slot(action.stage, action.microbatch)];
  __builtin_prefetch(&result + StepLayout::kSlotsAhead, 1);
  if (is_awaited(result)) {
    const int to = action.stage + (direction == Direction::kForward ? 1 : -1);
    wake(layout_.rank_of(to, action.microbatch));
  }
  result = end;
}

/// Notes when a stage has its activations or gradient, and wakes the rank that waits for it.
inline void UncontendedWalk::deliver(Direction direction, int stage, int microbatch, double time) {
  double& arrival = arrived(direction)[layout_.slot(stage, microbatch)];
  __builtin_prefetch(&arrival + StepLayout::kSlotsAhead, 1);
  if (is_awaited(arrival)) {
    wake(layout_.rank_of(stage, microbatch));
  }
  arrival = time;
}

/// Sends a result; returns false if what it sends is not made yet.
inline bool UncontendedWalk::send(const Action& action, int rank, Lane& lane) {
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

inline bool UncontendedWalk::copy(const Action& action, int rank, Lane& lane) {
  const Direction direction = direction_of(action.kind);
  const int from = action.stage - (direction == Direction::kForward ? 1 : -1);
  const double made_at = made(direction)[layout_.slot(from, action.microbatch)];
  if (!is_there(made_at)) {
    return false;
  }
  lane.free = std::max(lane.free, made_at);
  if (!is_implied_) {
    arrived(direction)[layout_.slot(action.stage, action.microbatch)] = lane.free;
  }
  record(rank, lane.position++, lane.free, lane.free);
  return true;
}

SimulatedTimes simulate_uncontended(const Schedule& schedule, const StepTimes& times,
                                    SpansOut spans) {
  return UncontendedWalk(schedule, times, Extent::kStep, spans).run();
}

SimulatedTimes simulate(const Schedule& schedule, std::span<const StageDurations> durations,
                        Seconds p2p_latency) {
  const StepTimes times{.stages = {durations.begin(), durations.end()},
                        .within_node = {.latency = p2p_latency}};
  return UncontendedWalk(schedule, times, Extent::kPasses, nullptr).run();
}

}  // namespace ptdp
