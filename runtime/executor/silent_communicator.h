// A communicator that can leave its collectives out.
#pragma once

#include <memory>
#include <utility>

#include "runtime/transport/forwarding_communicator.h"

namespace ptdp {

/// Passes calls on to another communicator. While it is silent, collectives do nothing: they send
/// no bytes, count none, and leave buffers as they are. Messages must not be sent then.
class SilentCommunicator final : public ForwardingCommunicator {
 public:
  explicit SilentCommunicator(std::unique_ptr<Communicator> inner)
      : ForwardingCommunicator(std::move(inner)) {}

  /// Begins or ends the silence. All begun collectives must have been waited for.
  void set_silent(bool is_silent) { is_silent_ = is_silent; }

  void all_reduce(Buffer whole, Reduction reduction) override {
    if (!is_silent_) {
      ForwardingCommunicator::all_reduce(whole, reduction);
    }
  }
  void reduce_scatter(Buffer whole) override {
    if (!is_silent_) {
      ForwardingCommunicator::reduce_scatter(whole);
    }
  }
  void all_gather(Buffer whole) override {
    if (!is_silent_) {
      ForwardingCommunicator::all_gather(whole);
    }
  }
  [[nodiscard]] Request begin_all_reduce(Buffer whole, Reduction reduction) override {
    return is_silent_ ? Request{} : ForwardingCommunicator::begin_all_reduce(whole, reduction);
  }
  [[nodiscard]] Request begin_reduce_scatter(Buffer whole) override {
    return is_silent_ ? Request{} : ForwardingCommunicator::begin_reduce_scatter(whole);
  }
  [[nodiscard]] Request begin_all_gather(Buffer whole) override {
    return is_silent_ ? Request{} : ForwardingCommunicator::begin_all_gather(whole);
  }
  void wait(Request request) override {
    if (!is_silent_) {
      ForwardingCommunicator::wait(request);
    }
  }

 private:
  bool is_silent_ = false;
};

}  // namespace ptdp
