// Events that are made once and used again, and what is asked of streams with them.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/check.h"

namespace ptdp::cuda {

/// Of any thread. Events outlive it no longer than their holders.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  EventPool() = default;
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  EventPool(EventPool&&) = delete;
  EventPool& operator=(EventPool&&) = delete;
  ~EventPool() {
    for (cudaEvent_t event : free_) {
      static_cast<void>(cudaEventDestroy(event));
    }
  }

  /// A cudaEvent_t that returns to the pool with its last holder. Throws CudaError.
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
      PTDP_CUDA_CHECK(cudaEventCreate(&event));
    }
    return {event, [pool = shared_from_this()](void* taken) {
              const std::lock_guard lock(pool->mutex_);
              pool->free_.push_back(static_cast<cudaEvent_t>(taken));
            }};
  }

 private:
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

[[nodiscard]] inline cudaEvent_t event_of(const std::shared_ptr<void>& taken) {
  return static_cast<cudaEvent_t>(taken.get());
}

/// Whether what is queued on a stream goes into a graph.
[[nodiscard]] inline bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  PTDP_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

inline void record_on(cudaStream_t stream, const std::shared_ptr<void>& event) {
  PTDP_CUDA_CHECK(cudaEventRecordWithFlags(
      event_of(event), stream,
      is_capturing(stream) ? cudaEventRecordExternal : cudaEventRecordDefault));
}

inline void wait_on(cudaStream_t stream, const std::shared_ptr<void>& event) {
  PTDP_CUDA_CHECK(
      cudaStreamWaitEvent(stream, event_of(event),
                          is_capturing(stream) ? cudaEventWaitExternal : cudaEventWaitDefault));
}

}  // namespace ptdp::cuda
