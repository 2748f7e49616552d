// What a rank does once before it waits for others: its passes, without what ranks exchange.
#include <utility>

#include "runtime/executor/executor.h"

namespace ptdp {

void Executor::warm_up() {
  if (!is_queued_) {
    return;
  }
  set_silent(true);
  for (auto& [number, stage] : stages_) {
    warm_up(number, *stage);
  }
  set_silent(false);
  optimizer_->zero_gradients();
  static_cast<void>(tensor_->take());
  if (shards_ != nullptr) {
    static_cast<void>(shards_->take());
  }
  backend_.synchronize();
}

/// Runs both passes of a stage on the first microbatch. Inputs hold whatever their memory holds,
/// and so do the gradients until they are cleared.
void Executor::warm_up(int number, TransformerStage& stage) {
  const Action action{.kind = ActionKind::kForward, .stage = number, .microbatch = 0};
  const bool begins = number == 0;
  const bool ends = number == num_stages(settings_.schedule) - 1;
  const auto message = [this](bool exists) {
    return exists ? Tensor(backend_, settings_.type, message_size()) : Tensor();
  };
  const Microbatch batch = microbatch(action);
  static_cast<void>(stage.forward(batch, message(!begins)));
  static_cast<void>(stage.backward(batch, message(!ends)));
  stage.finish_gradients();
  tokens_.erase({number, 0});
}

void Executor::set_silent(bool is_silent) {
  for (SilentCommunicator* const group : silenced_) {
    group->set_silent(is_silent);
  }
}

}  // namespace ptdp
