// A communicator that tells the action log when a rank waits for others.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "runtime/faults/action_log.h"
#include "runtime/transport/forwarding_communicator.h"

namespace ptdp {

/// Forwards every call and notes its wait in the action log. Groups made from it do so too.
class WatchedCommunicator final : public ForwardingCommunicator {
 public:
  /// Watches `inner`. The log and `inner` must outlive this communicator.
  WatchedCommunicator(ActionLog& log, Communicator& inner)
      : ForwardingCommunicator(inner), log_(log) {}
  WatchedCommunicator(ActionLog& log, std::unique_ptr<Communicator> inner)
      : ForwardingCommunicator(std::move(inner)), log_(log) {}

  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override {
    const ActionLog::Wait wait(log_);
    return std::make_unique<WatchedCommunicator>(log_, ForwardingCommunicator::group(ranks, tag));
  }
  [[nodiscard]] std::unique_ptr<Communicator> message_group(
      std::span<const int> ranks, int tag, std::span<const MessageLink> links) override {
    const ActionLog::Wait wait(log_);
    return std::make_unique<WatchedCommunicator>(log_, inner().message_group(ranks, tag, links));
  }
  void skip_group() override {
    const ActionLog::Wait wait(log_);
    ForwardingCommunicator::skip_group();
  }
  void wait(Request request) override {
    if (request.id != 0) {
      const ActionLog::Wait wait(log_);
      ForwardingCommunicator::wait(request);
    }
  }
  void all_reduce(Buffer whole, Reduction reduction) override {
    waiting([&] { ForwardingCommunicator::all_reduce(whole, reduction); });
  }
  void reduce_scatter(Buffer whole) override {
    waiting([&] { ForwardingCommunicator::reduce_scatter(whole); });
  }
  void all_gather(Buffer whole) override {
    waiting([&] { ForwardingCommunicator::all_gather(whole); });
  }
  [[nodiscard]] Request begin_all_reduce(Buffer whole, Reduction reduction) override {
    return waiting([&] { return ForwardingCommunicator::begin_all_reduce(whole, reduction); });
  }
  [[nodiscard]] Request begin_reduce_scatter(Buffer whole) override {
    return waiting([&] { return ForwardingCommunicator::begin_reduce_scatter(whole); });
  }
  [[nodiscard]] Request begin_all_gather(Buffer whole) override {
    return waiting([&] { return ForwardingCommunicator::begin_all_gather(whole); });
  }
  void barrier() override {
    waiting([&] { ForwardingCommunicator::barrier(); });
  }

 private:
  template <class Call>
  std::invoke_result_t<const Call&> waiting(const Call& call) {
    if (size() == 1) {
      return call();
    }
    const ActionLog::Wait wait(log_);
    return call();
  }

  ActionLog& log_;
};

}  // namespace ptdp
