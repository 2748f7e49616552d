#include "cost_model/schedule/passes/buffer_slots.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "cost_model/schedule/validator/schedule_fault.h"
#include "cost_model/schedule/validator/validation.h"

namespace ptdp {
namespace {

/// Numbered buffers of one size.
class Pool {
 public:
  int take() {
    if (free_.empty()) {
      return size_++;
    }
    const int slot = free_.top();
    free_.pop();
    return slot;
  }
  void give_back(int slot) { free_.push(slot); }
  [[nodiscard]] int size() const { return size_; }

 private:
  int size_ = 0;
  std::priority_queue<int, std::vector<int>, std::greater<>> free_;
};

/// The buffers of one stage on a rank.
struct StagePools {
  Pool activations;
  Pool received_activations;
  Pool received_gradients;
};

class SlotPass {
 public:
  explicit SlotPass(const Schedule& schedule)
      : schedule_(schedule), has_messages_(!is_compute_only(schedule)) {
    const std::size_t slots = slot_of(schedule, num_stages(schedule), 0);
    slots_.activations.resize(slots);
    slots_.received_activations.resize(slots);
    slots_.received_gradients.resize(slots);
  }

  BufferSlots run() {
    for (const std::vector<Action>& order : schedule_.orders) {
      pools_.clear();
      for (std::size_t begin = 0; begin < order.size();) {
        const std::size_t end = begin + (order[begin].overlaps_next ? 2 : 1);
        for (std::size_t i = begin; i < end; ++i) {
          take(order[i]);
        }
        for (std::size_t i = begin; i < end; ++i) {
          give_back(order[i]);
        }
        begin = end;
      }
      std::vector<StageBuffers>& stages = slots_.ranks.emplace_back();
      for (const auto& [stage, pools] : pools_) {
        stages.push_back({stage, pools.activations.size(), pools.received_activations.size(),
                          pools.received_gradients.size()});
      }
    }
    return std::move(slots_);
  }

 private:
  void take(const Action& action) {
    const std::size_t slot = slot_of(schedule_, action);
    switch (action.kind) {
      case ActionKind::kForward:
        slots_.activations[slot] = pools_[action.stage].activations.take();
        break;
      case ActionKind::kReceiveForward:
      case ActionKind::kCopyForward:
        slots_.received_activations[slot] = pools_[action.stage].received_activations.take();
        break;
      case ActionKind::kReceiveBackward:
      case ActionKind::kCopyBackward:
        slots_.received_gradients[slot] = pools_[action.stage].received_gradients.take();
        break;
      default:
        break;
    }
  }

  void give_back(const Action& action) {
    if (!is_compute(action.kind)) {
      return;
    }
    const std::size_t slot = slot_of(schedule_, action);
    StagePools& pools = pools_[action.stage];
    if (has_messages_ && action.kind == ActionKind::kForward && action.stage > 0) {
      pools.received_activations.give_back(slots_.received_activations[slot]);
    }
    if (has_messages_ && (kInputGradientBits & bit_of(action.kind)) != 0 &&
        action.stage + 1 < num_stages(schedule_)) {
      pools.received_gradients.give_back(slots_.received_gradients[slot]);
    }
    if ((kWeightGradientBits & bit_of(action.kind)) != 0) {
      pools.activations.give_back(slots_.activations[slot]);
    }
  }

  const Schedule& schedule_;
  bool has_messages_;
  std::map<int, StagePools> pools_;  ///< Of one rank, by stage.
  BufferSlots slots_;
};

}  // namespace

BufferSlots assign_buffer_slots(const Schedule& schedule) {
  return SlotPass(schedule).run();
}

}  // namespace ptdp
