// Tells all ranks of a run whether a step is the last one.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Tells all ranks whether a step is the last one. Rank 0 does so as the step begins, so that the
/// others need not wait for it at the step's end.
class StopNotice {
 public:
  /// Keeps references to both arguments; `backend` has the buffers of `world`.
  StopNotice(Communicator& world, Backend& backend)
      : world_(&world), backend_(&backend), is_last_(backend, DataType::kInt32, 1) {}

  /// Begins a step. Only rank 0's `is_last` counts.
  void begin_step(bool is_last) {
    if (world_->rank() != 0) {
      request_ = world_->receive(is_last_, 0);
      return;
    }
    const std::int32_t notice = is_last ? 1 : 0;
    backend_->copy_in(&notice, is_last_);
    for (int rank = 1; rank < world_->size(); ++rank) {
      world_->wait(world_->send(is_last_, rank));
    }
  }
  /// Returns whether the step is the last one. Call it after the step, on ranks that received the
  /// notice and on rank 0.
  [[nodiscard]] bool was_last() {
    world_->wait(std::exchange(request_, {}));
    std::int32_t notice = 0;
    backend_->copy_out(is_last_, &notice);
    return notice != 0;
  }

 private:
  Communicator* world_;
  Backend* backend_;
  Tensor is_last_;
  Request request_;
};

}  // namespace ptdp
