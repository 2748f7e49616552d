// A communicator that remembers when each of its collectives ran.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "runtime/transport/forwarding_communicator.h"

namespace ptdp {

/// A collective, from when to when (events of the backend).
struct TimedCollective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::int64_t bytes = 0;  ///< Of the whole buffer.
  Event start;
  Event end;
};

class TimedCommunicator final : public ForwardingCommunicator {
 public:
  TimedCommunicator(Backend& backend, std::unique_ptr<Communicator> inner)
      : ForwardingCommunicator(std::move(inner)), backend_(backend) {}

  void all_reduce(Buffer whole, Reduction reduction) override {
    timed(CollectiveKind::kAllReduce, whole,
          [&] { ForwardingCommunicator::all_reduce(whole, reduction); });
  }
  void reduce_scatter(Buffer whole) override {
    timed(CollectiveKind::kReduceScatter, whole,
          [&] { ForwardingCommunicator::reduce_scatter(whole); });
  }
  void all_gather(Buffer whole) override {
    timed(CollectiveKind::kAllGather, whole, [&] { ForwardingCommunicator::all_gather(whole); });
  }

  /// Those since the last call. Their events may be ahead.
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
  std::vector<TimedCollective> collectives_;
};

}  // namespace ptdp
