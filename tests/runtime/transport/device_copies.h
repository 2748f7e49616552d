// Runs tests of transports between hosts on ranks with GPUs, by copying buffers there and back.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/transport/forwarding_communicator.h"

namespace ptdp {

/// A communicator for buffers in the host's memory, over one for buffers in a backend's memory.
/// Every call waits for the device, except sends, which wait no more than a host's sends. What a
/// rank sends to itself stays in the host's memory.
class DeviceCopies final : public ForwardingCommunicator {
 public:
  DeviceCopies(Backend& backend, Communicator& inner)
      : ForwardingCommunicator(inner), backend_(backend) {}
  DeviceCopies(Backend& backend, std::unique_ptr<Communicator> inner)
      : ForwardingCommunicator(std::move(inner)), backend_(backend) {}

  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override {
    return std::make_unique<DeviceCopies>(backend_, ForwardingCommunicator::group(ranks, tag));
  }
  [[nodiscard]] Request send(Buffer buffer, int to) override {
    check();
    if (to == rank()) {
      own_.push_back(copied(buffer));
    } else {
      sent_.push_back(copied(buffer));
      static_cast<void>(ForwardingCommunicator::send(sent_.back(), to));
    }
    return {};
  }
  [[nodiscard]] Request receive(Buffer buffer, int from) override {
    check();
    if (from == rank()) {
      copy_back(own_.front(), buffer);
      own_.pop_front();
      return {};
    }
    Tensor tensor(backend_, buffer.type, buffer.size);
    const Request request = ForwardingCommunicator::receive(tensor, from);
    received_[request.id] = {std::move(tensor), buffer};
    return request;
  }
  void wait(Request request) override {
    ForwardingCommunicator::wait(request);
    if (const auto found = received_.find(request.id); found != received_.end()) {
      copy_back(found->second.first, found->second.second);
      received_.erase(found);
    }
  }
  void all_reduce(Buffer whole, Reduction reduction) override {
    on_device(whole, [&](Buffer copy) { ForwardingCommunicator::all_reduce(copy, reduction); });
  }
  void reduce_scatter(Buffer whole) override {
    on_device(whole, [&](Buffer copy) { ForwardingCommunicator::reduce_scatter(copy); });
  }
  void all_gather(Buffer whole) override {
    on_device(whole, [&](Buffer copy) { ForwardingCommunicator::all_gather(copy); });
  }

 private:
  [[nodiscard]] Tensor copied(Buffer buffer) {
    Tensor tensor(backend_, buffer.type, buffer.size);
    backend_.copy_in(buffer.data, tensor);
    return tensor;
  }
  void copy_back(const Tensor& tensor, Buffer buffer) {
    backend_.copy_out(tensor, buffer.data);
    check();
  }
  template <class Call>
  void on_device(Buffer whole, const Call& call) {
    const Tensor tensor = copied(whole);
    call(tensor);
    copy_back(tensor, whole);
  }

  Backend& backend_;
  std::vector<Tensor> sent_;
  std::deque<Tensor> own_;
  std::map<std::uint64_t, std::pair<Tensor, Buffer>> received_;
};

}  // namespace ptdp
