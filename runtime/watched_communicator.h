// A communicator that tells the log of actions when a rank waits for others.
#pragma once

#include <memory>
#include <utility>

#include "runtime/action_log.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Passes everything on to another communicator, and groups likewise.
class WatchedCommunicator final : public Communicator {
 public:
  /// Both must outlive it.
  WatchedCommunicator(ActionLog& log, Communicator& inner) : log_(log), inner_(&inner) {}
  WatchedCommunicator(ActionLog& log, std::unique_ptr<Communicator> inner)
      : log_(log), owned_(std::move(inner)), inner_(owned_.get()) {}

  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override {
    const ActionLog::Wait wait(log_);
    return std::make_unique<WatchedCommunicator>(log_, inner_->group(ranks, tag));
  }
  [[nodiscard]] Request send(Buffer buffer, int to) override { return inner_->send(buffer, to); }
  [[nodiscard]] Request receive(Buffer buffer, int from) override {
    return inner_->receive(buffer, from);
  }
  void wait(Request request) override {
    if (request.id != 0) {
      const ActionLog::Wait wait(log_);
      inner_->wait(request);
    }
  }
  void all_reduce(Buffer whole, Reduction reduction) override {
    waiting([&] { inner_->all_reduce(whole, reduction); });
  }
  void reduce_scatter(Buffer whole) override {
    waiting([&] { inner_->reduce_scatter(whole); });
  }
  void all_gather(Buffer whole) override {
    waiting([&] { inner_->all_gather(whole); });
  }
  void barrier() override {
    waiting([&] { inner_->barrier(); });
  }
  void abort(ExitStatus status) noexcept override { inner_->abort(status); }
  [[nodiscard]] const SentBytes& sent() const override { return inner_->sent(); }

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
  std::unique_ptr<Communicator> owned_;
  Communicator* inner_;
};

}  // namespace ptdp
