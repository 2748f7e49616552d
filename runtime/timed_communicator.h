// A communicator that remembers when each of its collectives ran.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// A collective, from when to when (events of the backend).
struct TimedCollective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::int64_t bytes = 0;  ///< Of the whole buffer.
  Event start;
  Event end;
};

/// Passes everything on to another communicator.
class TimedCommunicator : public Communicator {
 public:
  TimedCommunicator(Backend& backend, std::unique_ptr<Communicator> inner)
      : backend_(backend), inner_(std::move(inner)) {}

  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override {
    return inner_->group(ranks, tag);
  }
  [[nodiscard]] Request send(Buffer buffer, int to) override { return inner_->send(buffer, to); }
  [[nodiscard]] Request receive(Buffer buffer, int from) override {
    return inner_->receive(buffer, from);
  }
  void wait(Request request) override { inner_->wait(request); }
  void all_reduce(Buffer whole, Reduction reduction) override {
    timed(CollectiveKind::kAllReduce, whole, [&] { inner_->all_reduce(whole, reduction); });
  }
  void reduce_scatter(Buffer whole) override {
    timed(CollectiveKind::kReduceScatter, whole, [&] { inner_->reduce_scatter(whole); });
  }
  void all_gather(Buffer whole) override {
    timed(CollectiveKind::kAllGather, whole, [&] { inner_->all_gather(whole); });
  }
  void barrier() override { inner_->barrier(); }
  [[nodiscard]] const SentBytes& sent() const override { return inner_->sent(); }

  void abort(ExitStatus status) noexcept override { inner_->abort(status); }

  /// Those since the last call.
  [[nodiscard]] std::vector<TimedCollective> take() { return std::exchange(collectives_, {}); }

 private:
  template <class Call>
  void timed(CollectiveKind kind, const Buffer& whole, const Call& call) {
    if (size() == 1) {
      return call();
    }
    const Event start = backend_.record();
    call();
    collectives_.push_back(
        {.kind = kind, .bytes = whole.bytes(), .start = start, .end = backend_.record()});
  }

  Backend& backend_;
  std::unique_ptr<Communicator> inner_;
  std::vector<TimedCollective> collectives_;
};

}  // namespace ptdp
