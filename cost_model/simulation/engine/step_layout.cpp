#include "cost_model/simulation/engine/step_layout.h"

#include <algorithm>
#include <limits>

#include "cost_model/simulation/engine/table_walk.h"

namespace ptdp {
namespace {

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
      turned_from_(std::numeric_limits<int>::max()),
      stride_(stride_of(schedule.num_microbatches)),
      num_slots_((last_stage_ + 1) * stride_ + kSlotsAhead) {
  for (int stage = 0; stage <= last_stage_; ++stage) {
    rank_of_.push_back(ptdp::rank_of(schedule, stage, 0));
    chunk_of_.push_back(stage / schedule.pp);
  }
  if (schedule.placement == StagePlacement::kBidirectional) {
    turned_from_ = (schedule.num_microbatches + 1) / 2;
  }
}

}  // namespace ptdp
