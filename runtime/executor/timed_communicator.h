// A communicator that records when each of its collectives ran.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "runtime/transport/forwarding_communicator.h"

namespace ptdp {

/// A collective with its times, as events of the backend. One that was begun ends when it was
/// waited for. From `begun` to `waited` the lane went on without it. For a collective that was not
/// begun, both are its start.
struct TimedCollective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::int64_t bytes = 0;  ///< Size of the whole buffer [B].
  Event start;
  /// When the call that began the collective returned. Where calls are not queued, the collective
  /// was done by then.
  Event begun;
  Event waited;  ///< When the rank began to wait for the collective.
  /// When the wait for the collective was over.
  Event end;
};

/// Times the collectives of another communicator. A group of one rank sends nothing and is not
/// timed. A collective that is begun must be waited for before the next take().
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
  [[nodiscard]] Request begin_all_reduce(Buffer whole, Reduction reduction) override {
    return begun(CollectiveKind::kAllReduce, whole,
                 [&] { return ForwardingCommunicator::begin_all_reduce(whole, reduction); });
  }
  [[nodiscard]] Request begin_reduce_scatter(Buffer whole) override {
    return begun(CollectiveKind::kReduceScatter, whole,
                 [&] { return ForwardingCommunicator::begin_reduce_scatter(whole); });
  }
  [[nodiscard]] Request begin_all_gather(Buffer whole) override {
    return begun(CollectiveKind::kAllGather, whole,
                 [&] { return ForwardingCommunicator::begin_all_gather(whole); });
  }
  void wait(Request request) override {
    const auto found = under_way_.find(request.id);
    if (found == under_way_.end()) {
      return ForwardingCommunicator::wait(request);
    }
    TimedCollective collective = std::move(found->second);
    under_way_.erase(found);
    collective.waited = backend_.record();
    ForwardingCommunicator::wait(request);
    collective.end = backend_.record();
    collectives_.push_back(std::move(collective));
  }

  /// Returns the collectives that ended since the last call. Their events may not have happened
  /// yet.
  [[nodiscard]] std::vector<TimedCollective> take() { return std::exchange(collectives_, {}); }

 private:
  template <class Call>
  void timed(CollectiveKind kind, const Buffer& whole, const Call& call) {
    if (size() == 1) {
      return call();
    }
    const Event start = backend_.record();
    call();
    add_done(kind, whole, start);
  }

  template <class Call>
  [[nodiscard]] Request begun(CollectiveKind kind, const Buffer& whole, const Call& call) {
    if (size() == 1) {
      return call();
    }
    const Event start = backend_.record();
    const Request request = call();
    if (request.id == 0) {
      add_done(kind, whole, start);
    } else {
      under_way_[request.id] = {
          .kind = kind, .bytes = whole.bytes(), .start = start, .begun = backend_.record()};
    }
    return request;
  }

  void add_done(CollectiveKind kind, const Buffer& whole, const Event& start) {
    collectives_.push_back({.kind = kind,
                            .bytes = whole.bytes(),
                            .start = start,
                            .begun = start,
                            .waited = start,
                            .end = backend_.record()});
  }

  Backend& backend_;
  /// Collectives that were begun and not waited for, by request.
  std::map<std::uint64_t, TimedCollective> under_way_;
  std::vector<TimedCollective> collectives_;
};

}  // namespace ptdp
