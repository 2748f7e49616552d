// A base for communicators that add something to what another one does.
#pragma once

#include <memory>
#include <utility>

#include "runtime/transport/communicator.h"

namespace ptdp {

/// Passes every call on to another communicator; a derived class overrides the calls that differ.
class ForwardingCommunicator : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  /// Returns a group of the inner communicator, without what a derived class adds. message_group()
  /// calls group(), so a derived class that overrides group() changes both.
  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override {
    return inner_->group(ranks, tag);
  }
  void skip_group() override { inner_->skip_group(); }
  [[nodiscard]] Request send(Buffer buffer, int to) override { return inner_->send(buffer, to); }
  [[nodiscard]] Request receive(Buffer buffer, int from) override {
    return inner_->receive(buffer, from);
  }
  void wait(Request request) override { inner_->wait(request); }
  void all_reduce(Buffer whole, Reduction reduction) override {
    inner_->all_reduce(whole, reduction);
  }
  void reduce_scatter(Buffer whole) override { inner_->reduce_scatter(whole); }
  void all_gather(Buffer whole) override { inner_->all_gather(whole); }
  [[nodiscard]] Request begin_all_reduce(Buffer whole, Reduction reduction) override {
    return inner_->begin_all_reduce(whole, reduction);
  }
  [[nodiscard]] Request begin_reduce_scatter(Buffer whole) override {
    return inner_->begin_reduce_scatter(whole);
  }
  [[nodiscard]] Request begin_all_gather(Buffer whole) override {
    return inner_->begin_all_gather(whole);
  }
  void barrier() override { inner_->barrier(); }
  [[nodiscard]] const SentBytes& sent() const override { return inner_->sent(); }
  [[nodiscard]] bool is_queued() const override { return inner_->is_queued(); }
  void check() override { inner_->check(); }
  [[nodiscard]] std::optional<double> estimate(CollectiveKind kind, Buffer whole) override {
    return inner_->estimate(kind, whole);
  }
  void abort(ExitStatus status) noexcept override { inner_->abort(status); }

 protected:
  /// Forwards to `inner`, which must outlive this object.
  explicit ForwardingCommunicator(Communicator& inner) : inner_(&inner) {}
  /// Forwards to `inner` and owns it.
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> inner)
      : owned_(std::move(inner)), inner_(owned_.get()) {}

  /// Returns the communicator to which calls are passed on.
  [[nodiscard]] Communicator& inner() const { return *inner_; }

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator* inner_;
};

}  // namespace ptdp
