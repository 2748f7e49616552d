// CUDA events that are used again, and what streams do with them.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/check.h"

namespace ptdp::cuda {

/// What events of a pool are for: to order streams, or also to tell the time between them, which
/// costs a GPU a microsecond each.
enum class EventUse : unsigned { kOrder = cudaEventDisableTiming, kTime = cudaEventDefault };

/// A pool of CUDA events. Any thread may use it. It lives at least as long as every holder of its
/// events.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(EventUse use) : use_(use) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  EventPool(EventPool&&) = delete;
  EventPool& operator=(EventPool&&) = delete;
  ~EventPool() {
    for (cudaEvent_t event : free_) {
      static_cast<void>(cudaEventDestroy(event));
    }
  }

  /// Returns a cudaEvent_t that goes back to the pool with its last holder. Throws CudaError.
  [[nodiscard]] std::shared_ptr<void> take() {
    cudaEvent_t event = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        event = free_.back();
        free_.pop_back();
      }
    }
    if (event == nullptr) {
      PTDP_CUDA_CHECK(cudaEventCreateWithFlags(&event, static_cast<unsigned>(use_)));
    }
    return {event, [pool = shared_from_this()](void* taken) {
              const std::lock_guard lock(pool->mutex_);
              pool->free_.push_back(static_cast<cudaEvent_t>(taken));
            }};
  }

 private:
  EventUse use_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

/// Returns the cudaEvent_t that EventPool::take() returned.
[[nodiscard]] inline cudaEvent_t event_of(const std::shared_ptr<void>& taken) {
  return static_cast<cudaEvent_t>(taken.get());
}

/// Returns whether work queued on a stream goes into a graph. Throws CudaError.
[[nodiscard]] inline bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  PTDP_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

/// Records `event` behind the work on `stream`, also while the stream is captured. Throws
/// CudaError.
inline void record_on(cudaStream_t stream, const std::shared_ptr<void>& event) {
  PTDP_CUDA_CHECK(cudaEventRecordWithFlags(
      event_of(event), stream,
      is_capturing(stream) ? cudaEventRecordExternal : cudaEventRecordDefault));
}

/// Makes `stream` wait for `event`, also while the stream is captured. Throws CudaError.
inline void wait_on(cudaStream_t stream, const std::shared_ptr<void>& event) {
  PTDP_CUDA_CHECK(
      cudaStreamWaitEvent(stream, event_of(event),
                          is_capturing(stream) ? cudaEventWaitExternal : cudaEventWaitDefault));
}

}  // namespace ptdp::cuda
