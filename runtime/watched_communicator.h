// A communicator that tells the log of actions when a rank waits for others.
#pragma once

#include <memory>
#include <utility>

#include "runtime/action_log.h"
#include "runtime/transport/forwarding_communicator.h"

namespace ptdp {

/// Groups likewise.
class WatchedCommunicator final : public ForwardingCommunicator {
 public:
  /// Both must outlive it.
  WatchedCommunicator(ActionLog& log, Communicator& inner)
      : ForwardingCommunicator(inner), log_(log) {}
  WatchedCommunicator(ActionLog& log, std::unique_ptr<Communicator> inner)
      : ForwardingCommunicator(std::move(inner)), log_(log) {}

  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override {
    const ActionLog::Wait wait(log_);
    return std::make_unique<WatchedCommunicator>(log_, ForwardingCommunicator::group(ranks, tag));
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
  void barrier() override {
    waiting([&] { ForwardingCommunicator::barrier(); });
  }

 private:
  template <class Call>
  void waiting(const Call& call) {
    if (size() == 1) {
      return call();
    }
    const ActionLog::Wait wait(log_);
    call();
  }

  ActionLog& log_;
};

}  // namespace ptdp
