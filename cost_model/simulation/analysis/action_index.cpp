#include "cost_model/simulation/analysis/action_index.h"

namespace ptdp {

ActionIndex::ActionIndex(const Schedule& schedule, const StepLayout& layout, MessageMode messages,
                         DataMode data)
    : schedule_(schedule),
      layout_(layout),
      messages_(messages),
      data_(data),
      is_implied_(implies_messages(schedule)),
      last_weight_gradients_(static_cast<std::size_t>(schedule.pp) * layout.chunks_per_rank(),
                             kNowhere),
      last_gathers_(last_weight_gradients_) {
  positions_.fill(std::vector<std::uint32_t>(layout.num_slots(), kNowhere));
  for (int rank = 0; rank < schedule.pp; ++rank) {
    const std::vector<Action>& order = schedule.orders[rank];
    for (std::size_t position = 0; position < order.size(); ++position) {
      const Action& action = order[position];
      switch (action.kind) {
        case ActionKind::kForward:
          note(Role::kMakes, Direction::kForward, action, position);
          break;
        case ActionKind::kBackward:
        case ActionKind::kInputGradient:
          note(Role::kMakes, Direction::kBackward, action, position);
          break;
        case ActionKind::kSendForward:
        case ActionKind::kSendBackward:
          note(Role::kSends, direction_of(action.kind), action, position);
          break;
        case ActionKind::kReceiveForward:
        case ActionKind::kReceiveBackward:
        case ActionKind::kCopyForward:
        case ActionKind::kCopyBackward:
          note(Role::kTakes, direction_of(action.kind), action, position);
          break;
        case ActionKind::kWeightGradient:
        case ActionKind::kRecompute:
        case ActionKind::kReduceGradients:
        case ActionKind::kGatherParameters:
        case ActionKind::kReduceTied:
        case ActionKind::kReduceNorm:
        case ActionKind::kOptimizer:
          break;
      }
      const std::size_t chunk = layout.chunk_slot(action.stage, rank);
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) {
        last_weight_gradients_[chunk] = static_cast<std::uint32_t>(position);
      } else if (action.kind == ActionKind::kGatherParameters) {
        last_gathers_[chunk] = static_cast<std::uint32_t>(position);
      }
    }
  }
}

void ActionIndex::note(Role role, Direction direction, const Action& action, std::size_t position) {
  positions_[table_of(role, direction)][layout_.slot(action.stage, action.microbatch)] =
      static_cast<std::uint32_t>(position);
}

std::optional<Place> ActionIndex::find(Role role, Direction direction, int stage,
                                       int microbatch) const {
  const std::uint32_t position =
      positions_[table_of(role, direction)][layout_.slot(stage, microbatch)];
  if (position == kNowhere) {
    return std::nullopt;
  }
  return first_of_pair({layout_.rank_of(stage, microbatch), position});
}

Place ActionIndex::first_of_pair(Place place) const {
  const bool is_second =
      place.position > 0 && schedule_.orders[place.rank][place.position - 1].overlaps_next;
  return {place.rank, place.position - (is_second ? 1 : 0)};
}

std::optional<Place> ActionIndex::before_on_lane(Place place) const {
  const Lane lane = lane_of(at(place).kind, messages_, data_);
  while (place.position > 0) {
    --place.position;
    if (occupies_lane(at(place).kind) && lane_of(at(place).kind, messages_, data_) == lane) {
      return first_of_pair(place);
    }
  }
  return std::nullopt;
}

std::optional<Place> ActionIndex::before_on_data_lane(Place place) const {
  while (place.position > 0) {
    --place.position;
    if (is_collective(at(place).kind)) {
      return place;
    }
  }
  return std::nullopt;
}

std::optional<Place> ActionIndex::input(Place place) const {
  const Action& action = at(place);
  const int last = layout_.last_stage();
  switch (action.kind) {
    case ActionKind::kForward:
      if (action.stage == 0) {
        return std::nullopt;
      }
      return !is_implied_
                 ? find(Role::kTakes, Direction::kForward, action.stage, action.microbatch)
                 : find(Role::kMakes, Direction::kForward, action.stage - 1, action.microbatch);
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
      if (action.stage == last) {
        return find(Role::kMakes, Direction::kForward, last, action.microbatch);
      }
      return !is_implied_
                 ? find(Role::kTakes, Direction::kBackward, action.stage, action.microbatch)
                 : find(Role::kMakes, Direction::kBackward, action.stage + 1, action.microbatch);
    case ActionKind::kSendForward:
    case ActionKind::kSendBackward:
      return find(Role::kMakes, direction_of(action.kind), action.stage, action.microbatch);
    case ActionKind::kCopyForward:
      return find(Role::kMakes, Direction::kForward, action.stage - 1, action.microbatch);
    case ActionKind::kCopyBackward:
      return find(Role::kMakes, Direction::kBackward, action.stage + 1, action.microbatch);
    case ActionKind::kWeightGradient:
    case ActionKind::kRecompute:
    case ActionKind::kReceiveForward:
    case ActionKind::kReceiveBackward:
    case ActionKind::kReduceGradients:
    case ActionKind::kGatherParameters:
    case ActionKind::kReduceTied:
    case ActionKind::kReduceNorm:
    case ActionKind::kOptimizer:
      break;
  }
  return std::nullopt;
}

std::optional<Place> ActionIndex::other_side(Place place) const {
  const Action& action = at(place);
  const Direction direction = direction_of(action.kind);
  const int step = direction == Direction::kForward ? 1 : -1;
  return is_send(action.kind)
             ? find(Role::kTakes, direction, action.stage + step, action.microbatch)
             : find(Role::kSends, direction, action.stage - step, action.microbatch);
}

std::optional<Place> ActionIndex::of_chunk(const std::vector<std::uint32_t>& positions,
                                           Place place) const {
  const std::uint32_t position = positions[layout_.chunk_slot(at(place).stage, place.rank)];
  if (position == kNowhere) {
    return std::nullopt;
  }
  return first_of_pair({place.rank, position});
}

std::optional<Place> ActionIndex::last_weight_gradient(Place place) const {
  return of_chunk(last_weight_gradients_, place);
}

std::optional<Place> ActionIndex::last_gather(Place place) const {
  return of_chunk(last_gathers_, place);
}

}  // namespace ptdp
