// Orders the streams of a channel by events.
#include "runtime/transport/nccl/nccl_channel.h"

#include <exception>

namespace ptdp {

NcclChannel::NcclChannel(NcclWorldState& world, std::shared_ptr<NcclEnd> end, Backend& backend)
    : world_(world),
      end_(std::move(end)),
      backend_(backend),
      exceptions_(std::uncaught_exceptions()) {}

NcclChannel::~NcclChannel() {
  if (std::uncaught_exceptions() > exceptions_) {
    world_.abort();
  }
  world_.close(end_);
  if (own_ != nullptr) {
    static_cast<void>(cudaStreamDestroy(own_));
  }
}

cudaStream_t NcclChannel::own_stream() {
  if (own_ == nullptr) {
    int least = 0;
    int greatest = 0;
    PTDP_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    PTDP_CUDA_CHECK(cudaStreamCreateWithPriority(&own_, cudaStreamNonBlocking, greatest));
  }
  return own_;
}

void NcclChannel::order(cudaStream_t first, cudaStream_t then) const {
  cuda::wait_on(then, mark(first));
}

std::shared_ptr<void> NcclChannel::mark(cudaStream_t stream) const {
  std::shared_ptr<void> event = events_->take();
  cuda::record_on(stream, event);
  return event;
}

}  // namespace ptdp
