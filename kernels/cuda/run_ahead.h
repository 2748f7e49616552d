// Keeps a host from running far ahead of its GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "kernels/cuda/events.h"

namespace ptdp::cuda {

/// Bounds the calls by which the thread that issues compute is ahead of its GPU. It waits for work
/// that it asked for itself, long before: so ranks that wait for each other's messages go on.
class RunAhead {
 public:
  /// `most` is the largest number of calls ahead, at least 2.
  RunAhead(int most, std::shared_ptr<EventPool> events)
      : period_(most / 2), events_(std::move(events)) {}

  /// Counts calls that each queue something on any stream. Any thread may call it.
  void count(int calls) { calls_ += calls; }
  /// Waits until the host is no longer too far ahead. Only the thread that issues compute may call
  /// it, with the stream of compute. Throws CudaError.
  void wait(cudaStream_t compute) {
    if (calls_ < period_ || is_capturing(compute)) {
      return;
    }
    calls_ = 0;
    std::shared_ptr<void> mark = events_->take();
    record_on(compute, mark);
    if (last_ != nullptr && cudaEventQuery(event_of(last_)) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());  // It keeps that the event is not reached.
      tell(/*begins=*/true);
      PTDP_CUDA_CHECK(cudaEventSynchronize(event_of(last_)));
      tell(/*begins=*/false);
    }
    last_ = std::move(mark);
  }
  /// Sets what hears of waits that begin and end (Backend::tell_waits).
  void tell_waits(std::function<void(bool begins)> listener) { listener_ = std::move(listener); }

 private:
  void tell(bool begins) const {
    if (listener_) {
      listener_(begins);
    }
  }

  int period_;
  std::atomic<int> calls_ = 0;  ///< Calls since the last mark.
  std::shared_ptr<void> last_;  ///< The last mark on the stream of compute; null before the first.
  std::shared_ptr<EventPool> events_;
  std::function<void(bool begins)> listener_;
};

}  // namespace ptdp::cuda
