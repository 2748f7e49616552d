// A communicator of NCCL with the streams that its operations run on.
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

/// One NCCL communicator, whose operations run in the order of the calls, whichever stream they are
/// on. One thread makes all calls.
class NcclChannel {
 public:
  /// `end` has a communicator. `world` and `backend` must outlive the channel.
  NcclChannel(NcclWorldState& world, std::shared_ptr<NcclEnd> end, Backend& backend);
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;
  NcclChannel(NcclChannel&&) = delete;
  NcclChannel& operator=(NcclChannel&&) = delete;
  /// Waits for the work that was queued. When an exception passes, it aborts the world instead.
  ~NcclChannel();

  /// Queues an NCCL call, `make(communicator, stream)`, on the lane in use. `name` is for error
  /// messages.
  template <class Make>
  void queue(std::string_view name, const Make& make) {
    queue_on(lane(), name, make);
  }
  /// Queues an NCCL call, `make(communicator, stream)`, on the channel's own stream, behind the
  /// work on the lane in use. Returns the event of its end.
  template <class Make>
  [[nodiscard]] std::shared_ptr<void> begin(std::string_view name, const Make& make) {
    cudaStream_t own = own_stream();
    order(lane(), own);
    queue_on(own, name, make);
    return mark(own);
  }
  /// Makes the lane in use wait for an event of begin().
  void wait(const std::shared_ptr<void>& event) const { cuda::wait_on(lane(), event); }
  /// Returns this rank's end of the communicator.
  [[nodiscard]] NcclEnd& end() const { return *end_; }

 private:
  /// Queues an NCCL call on `stream`, behind the communicator's earlier calls on other streams.
  template <class Make>
  void queue_on(cudaStream_t stream, std::string_view name, const Make& make) {
    if (last_stream_ != nullptr && last_stream_ != stream) {
      order(last_stream_, stream);
    }
    last_stream_ = stream;
    end_->call(name, [&](ncclComm_t communicator) { return make(communicator, stream); });
  }
  /// Returns the stream of the lane in use.
  [[nodiscard]] cudaStream_t lane() const {
    return static_cast<cudaStream_t>(backend_.native_lane());
  }
  /// Returns the channel's own stream, of the highest priority, and creates it at its first use.
  [[nodiscard]] cudaStream_t own_stream();
  /// Makes later work on `then` wait for the present work on `first`.
  void order(cudaStream_t first, cudaStream_t then) const;
  /// Returns an event behind the present work on `stream`.
  [[nodiscard]] std::shared_ptr<void> mark(cudaStream_t stream) const;

  NcclWorldState& world_;
  std::shared_ptr<NcclEnd> end_;
  Backend& backend_;
  std::shared_ptr<cuda::EventPool> events_ =
      std::make_shared<cuda::EventPool>(cuda::EventUse::kOrder);
  cudaStream_t own_ = nullptr;          ///< The channel's own stream; null before its first use.
  cudaStream_t last_stream_ = nullptr;  ///< Stream of the latest call.
  int exceptions_;                      ///< Exceptions that were passing when the channel was made.
};

}  // namespace ptdp
