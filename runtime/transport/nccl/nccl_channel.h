// A communicator of NCCL's and the streams that its operations run on.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <memory>
#include <string_view>
#include <utility>

#include "kernels/backend.h"
#include "kernels/cuda/events.h"
#include "runtime/transport/nccl/nccl_world_state.h"

namespace ptdp {

/// Operations run in the order of the calls, whichever stream they are on. One thread makes them.
class NcclChannel {
 public:
  /// `end` has a communicator; both must outlive it.
  NcclChannel(NcclWorldState& world, std::shared_ptr<NcclEnd> end, Backend& backend);
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;
  NcclChannel(NcclChannel&&) = delete;
  NcclChannel& operator=(NcclChannel&&) = delete;
  /// Waits for what was queued; an exception that passes aborts the world instead.
  ~NcclChannel();

  /// Queues `make(communicator, stream)`, a call of NCCL's, on the lane in use.
  template <class Make>
  void queue(std::string_view name, const Make& make) {
    queue_on(lane(), name, make);
  }
  /// Queues it on the channel's own stream, behind what is on the lane in use: the event of its
  /// end.
  template <class Make>
  [[nodiscard]] std::shared_ptr<void> begin(std::string_view name, const Make& make) {
    cudaStream_t own = own_stream();
    order(lane(), own);
    queue_on(own, name, make);
    return mark(own);
  }
  /// Lets the lane in use wait for an event of begin().
  void wait(const std::shared_ptr<void>& event) const { cuda::wait_on(lane(), event); }
  [[nodiscard]] NcclEnd& end() const { return *end_; }

 private:
  template <class Make>
  void queue_on(cudaStream_t stream, std::string_view name, const Make& make) {
    if (last_stream_ != nullptr && last_stream_ != stream) {
      order(last_stream_, stream);
    }
    last_stream_ = stream;
    end_->call(name, [&](ncclComm_t communicator) { return make(communicator, stream); });
  }
  [[nodiscard]] cudaStream_t lane() const {
    return static_cast<cudaStream_t>(backend_.native_lane());
  }
  [[nodiscard]] cudaStream_t own_stream();
  /// What follows on `then` runs behind what is on `first`.
  void order(cudaStream_t first, cudaStream_t then) const;
  [[nodiscard]] std::shared_ptr<void> mark(cudaStream_t stream) const;

  NcclWorldState& world_;
  std::shared_ptr<NcclEnd> end_;
  Backend& backend_;
  std::shared_ptr<cuda::EventPool> events_ = std::make_shared<cuda::EventPool>();
  cudaStream_t own_ = nullptr;
  cudaStream_t last_stream_ = nullptr;
  int exceptions_;  ///< That passed when it was made.
};

}  // namespace ptdp
