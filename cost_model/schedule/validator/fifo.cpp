// Checks that messages come in the order in which they were sent.
#include <map>
#include <string>

#include "cost_model/schedule/validator/validation.h"

namespace ptdp {
namespace {

/// The two ends of a message of one direction, by the kinds of actions that stand for them: sends
/// and receives if there are any, else what makes and takes the message.
struct MessageEnds {
  int step = 1;  ///< Step from the stage of the sender to that of the receiver.
  Kinds sends = 0;
  Kinds receives = 0;
};

class FifoCheck {
 public:
  FifoCheck(const Schedule& schedule, const StageRanks& ranks, const MessageEnds& direction)
      : schedule_(schedule), ranks_(ranks), direction_(direction) {}

  std::optional<ScheduleFault> find() {
    number_.assign(static_cast<std::size_t>(ranks_.num_stages()) * schedule_.num_microbatches, -1);
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      std::map<int, std::int32_t> count;  // by the other rank, of which there are few
      for (const Action& action : schedule_.orders[rank]) {
        const int next = action.stage + direction_.step;
        if ((direction_.sends & bit_of(action.kind)) != 0 && is_stage(next)) {
          number_[slot_of(schedule_, action)] = count[ranks_.of(next, action.microbatch)]++;
        }
      }
    }
    std::optional<ScheduleFault> fault;
    for (int rank = 0; rank < schedule_.pp && !fault; ++rank) {
      fault = find_on(rank);
    }
    return fault;
  }

 private:
  [[nodiscard]] bool is_stage(int stage) const { return stage >= 0 && stage < ranks_.num_stages(); }

  [[nodiscard]] std::optional<ScheduleFault> find_on(int rank) const {
    std::map<int, std::int32_t> count;
    const std::vector<Action>& order = schedule_.orders[rank];
    for (std::size_t position = 0; position < order.size(); ++position) {
      const Action& action = order[position];
      const int previous = action.stage - direction_.step;
      if ((direction_.receives & bit_of(action.kind)) == 0 || !is_stage(previous)) {
        continue;
      }
      const int sender = ranks_.of(previous, action.microbatch);
      if (number_[slot_of(schedule_, previous, action.microbatch)] != count[sender]++ &&
          sender != rank) {
        return expected_at(schedule_, {rank, position},
                           "the results of rank " + std::to_string(sender) +
                               " in the order in which it makes them");
      }
    }
    return std::nullopt;
  }

  const Schedule& schedule_;
  const StageRanks& ranks_;
  MessageEnds direction_;
  /// Number of each message among those from its rank to the rank that takes it, by stage and
  /// microbatch; -1 for none.
  std::vector<std::int32_t> number_;
};

}  // namespace

std::optional<ScheduleFault> find_fifo_fault(const Schedule& schedule, const StageRanks& ranks) {
  const Kinds forward = bit_of(ActionKind::kForward);
  const bool is_implied = is_compute_only(schedule);
  const MessageEnds activations{
      .step = 1,
      .sends = is_implied ? forward : bit_of(ActionKind::kSendForward),
      .receives = is_implied ? forward : bit_of(ActionKind::kReceiveForward)};
  const MessageEnds gradients{
      .step = -1,
      .sends = is_implied ? kInputGradientBits : bit_of(ActionKind::kSendBackward),
      .receives = is_implied ? kInputGradientBits : bit_of(ActionKind::kReceiveBackward)};
  if (auto fault = FifoCheck(schedule, ranks, activations).find()) {
    return fault;
  }
  return FifoCheck(schedule, ranks, gradients).find();
}

}  // namespace ptdp
