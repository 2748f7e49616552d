// Where the actions of a stage and microbatch stand in the ranks' lists.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/schedule/lane.h"
#include "cost_model/schedule/schedule.h"
#include "cost_model/schedule/validator/schedule_fault.h"
#include "cost_model/simulation/engine/step_layout.h"

namespace ptdp {

/// Index of a schedule's actions: finds, by an action's place, what the action needs. A pair is
/// found at its first action. The schedule and the layout must outlive it.
class ActionIndex {
 public:
  ActionIndex(const Schedule& schedule, const StepLayout& layout, MessageMode messages,
              DataMode data);

  /// Returns the action before `place` on the same lane; nullopt if none.
  [[nodiscard]] std::optional<Place> before_on_lane(Place place) const;
  /// Returns the last action of the rank's data lane before `place`; nullopt if none.
  [[nodiscard]] std::optional<Place> before_on_data_lane(Place place) const;
  /// Returns the action whose result an F, B or I takes or a message or copy carries; nullopt if
  /// none. With implied messages it is the action on the other stage.
  [[nodiscard]] std::optional<Place> input(Place place) const;
  /// Returns the other side of a message: the receive of a send, the send of a receive.
  [[nodiscard]] std::optional<Place> other_side(Place place) const;
  /// Returns the last weight gradient of the stage of the action at `place`.
  [[nodiscard]] std::optional<Place> last_weight_gradient(Place place) const;
  /// Returns the last UNSHARD of the stage of the action at `place`; nullopt if it has none.
  [[nodiscard]] std::optional<Place> last_gather(Place place) const;
  /// Returns the place of the first action of a pair for its second; otherwise `place`.
  [[nodiscard]] Place first_of_pair(Place place) const;

 private:
  /// What an action is looked up for, by stage, microbatch and direction: it makes a result, sends
  /// it, or receives or copies it.
  enum class Role : std::uint8_t { kMakes, kSends, kTakes };
  static constexpr std::uint32_t kNowhere = 0xffffffff;

  [[nodiscard]] const Action& at(Place place) const {
    return schedule_.orders[place.rank][place.position];
  }
  [[nodiscard]] static std::size_t table_of(Role role, Direction direction) {
    return static_cast<std::size_t>(role) * kNumDirections + static_cast<std::size_t>(direction);
  }
  void note(Role role, Direction direction, const Action& action, std::size_t position);
  [[nodiscard]] std::optional<Place> of_chunk(const std::vector<std::uint32_t>& positions,
                                              Place place) const;
  [[nodiscard]] std::optional<Place> find(Role role, Direction direction, int stage,
                                          int microbatch) const;

  const Schedule& schedule_;
  const StepLayout& layout_;
  MessageMode messages_;
  DataMode data_;
  bool is_implied_;
  std::array<std::vector<std::uint32_t>, std::size_t{3} * kNumDirections> positions_;
  /// Position of the last W or B, by chunk slot.
  std::vector<std::uint32_t> last_weight_gradients_;
  std::vector<std::uint32_t> last_gathers_;  ///< Position of the last UNSHARD, by chunk slot.
};

}  // namespace ptdp
