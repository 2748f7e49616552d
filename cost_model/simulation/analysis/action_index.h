// Where in the lists the actions of a stage and microbatch stand.
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

/// Of a schedule, which must outlive it: what an action needs, by its place. A pair is found at its
/// first action.
class ActionIndex {
 public:
  ActionIndex(const Schedule& schedule, const StepLayout& layout, MessageMode messages,
              DataMode data);

  /// The action before on the same lane.
  [[nodiscard]] std::optional<Place> before_on_lane(Place place) const;
  /// The last action of the rank's data lane before it.
  [[nodiscard]] std::optional<Place> before_on_data_lane(Place place) const;
  /// The action that makes what an F, B or I takes or a message or copy carries: where messages are
  /// implied, that on the other stage.
  [[nodiscard]] std::optional<Place> input(Place place) const;
  /// The other side of a message.
  [[nodiscard]] std::optional<Place> other_side(Place place) const;
  /// The last weight gradient of a REDUCE_GRAD's stage.
  [[nodiscard]] std::optional<Place> last_weight_gradient(Place place) const;
  /// The last UNSHARD of an action's stage.
  [[nodiscard]] std::optional<Place> last_gather(Place place) const;
  /// The first of a pair for its second.
  [[nodiscard]] Place first_of_pair(Place place) const;

 private:
  /// What is looked up by stage and microbatch, in either direction: who makes a result, who sends
  /// it, and who receives or copies it.
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
  std::vector<std::uint32_t> last_weight_gradients_;  ///< By chunk.
  std::vector<std::uint32_t> last_gathers_;           ///< Likewise.
};

}  // namespace ptdp
