#include "cost_model/simulation/engine/step_layout.h"

#include <algorithm>

namespace ptdp {
namespace {

/// Returns the slots of a stage in the tables: its microbatches and some room. It is an odd number
/// of cache lines of doubles, so that neighboring stages do not share the same few sets of the
/// caches.
std::size_t stride_of(int num_microbatches) {
  constexpr std::size_t per_line = 8;
  const std::size_t lines = static_cast<std::size_t>(num_microbatches) / per_line + 1;
  return (lines | 1U) * per_line;
}

/// Whether a rank's list has sends or receives.
bool names_messages(const std::vector<Action>& order) {
  return std::any_of(order.begin(), order.end(),
                     [](const Action& action) { return is_message(action.kind); });
}

}  // namespace

bool implies_messages(const Schedule& schedule) {
  return std::none_of(schedule.orders.begin(), schedule.orders.end(), names_messages);
}

StepLayout::StepLayout(const Schedule& schedule)
    : schedule_(schedule),
      last_stage_(num_stages(schedule) - 1),
      chunks_per_rank_(schedule.placement == StagePlacement::kBidirectional ? 2 : schedule.vpp),
      stride_(stride_of(schedule.num_microbatches)),
      num_slots_((last_stage_ + 1) * stride_ + kSlotsAhead),
      ranks_(schedule) {
  chunk_of_.reserve(last_stage_ + 1);
  for (int stage = 0; stage <= last_stage_; ++stage) {
    chunk_of_.push_back(stage / schedule.pp);
  }
}

}  // namespace ptdp
