// Communicators whose begun collectives are not done when the call returns, as over NCCL.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "kernels/backend.h"
#include "runtime/transport/forwarding_communicator.h"

namespace ptdp {

/// Base of communicators that delay begun collectives. A collective that is begun and never waited
/// for fails the test.
class BegunCommunicator : public ForwardingCommunicator {
 public:
  /// Counts begun collectives in `begun`. `inner` and `begun` must outlive the communicator.
  BegunCommunicator(Communicator& inner, std::atomic<int>& begun)
      : ForwardingCommunicator(inner), begun_(begun) {}
  BegunCommunicator(std::unique_ptr<Communicator> inner, std::atomic<int>& begun)
      : ForwardingCommunicator(std::move(inner)), begun_(begun) {}
  BegunCommunicator(const BegunCommunicator&) = delete;
  BegunCommunicator& operator=(const BegunCommunicator&) = delete;
  BegunCommunicator(BegunCommunicator&&) = delete;
  BegunCommunicator& operator=(BegunCommunicator&&) = delete;
  ~BegunCommunicator() override;

  [[nodiscard]] Request begin_all_reduce(Buffer whole, Reduction reduction) override;
  [[nodiscard]] Request begin_reduce_scatter(Buffer whole) override;
  [[nodiscard]] Request begin_all_gather(Buffer whole) override;
  void wait(Request request) override;

 protected:
  using Call = std::function<void()>;
  /// Begins `collective`, which works on `whole`. Returns the call that ends it.
  [[nodiscard]] virtual Call start(Buffer whole, Call collective) = 0;

 private:
  [[nodiscard]] Request begin(Buffer whole, Call collective);

  std::atomic<int>& begun_;
  std::map<std::uint64_t, Call> under_way_;
  std::uint64_t last_id_ = 1'000'000'000;  // far from the ids of the inner communicator
};

/// Runs a begun collective only when it is waited for; for hosts. Until then its buffer holds NaN,
/// and whoever writes to it fails the test.
class DelayedCommunicator final : public BegunCommunicator {
 public:
  using BegunCommunicator::BegunCommunicator;

 protected:
  [[nodiscard]] Call start(Buffer whole, Call collective) override;
};

/// Runs a begun collective on a thread of its own, at any time until it is waited for; for hosts.
class ThreadedCommunicator final : public BegunCommunicator {
 public:
  using BegunCommunicator::BegunCommunicator;

 protected:
  [[nodiscard]] Call start(Buffer whole, Call collective) override;
};

/// Queues a begun collective on another lane of the backend, for which the lane in use waits, as
/// NCCL does; for devices.
class LaneCommunicator final : public BegunCommunicator {
 public:
  /// The backend must outlive the communicator.
  LaneCommunicator(Backend& backend, Communicator& inner, std::atomic<int>& begun)
      : BegunCommunicator(inner, begun), backend_(backend) {}

 protected:
  [[nodiscard]] Call start(Buffer whole, Call collective) override;

 private:
  Backend& backend_;
};

}  // namespace ptdp
