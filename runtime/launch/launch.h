// Starts the ranks of a world, and ends them: threads of this process, or processes that a launcher
// started.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "cost_model/units.h"
#include "kernels/backend.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/processes/job.h"

namespace ptdp {

/// That all ranks should end early. May be raised by any thread and by a signal handler.
class StopFlag {
 public:
  void raise() noexcept { is_raised_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool is_raised() const noexcept {
    return is_raised_.load(std::memory_order_relaxed);
  }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free);
  std::atomic<bool> is_raised_ = false;
};

/// Whether any rank sees the flag raised: the same answer on all ranks of `world`, which all ask at
/// the same point of their work. One all-reduce of one element.
[[nodiscard]] bool agree_to_stop(const StopFlag& flag, Communicator& world, Backend& backend);

/// Ends the communication of a world that runs: of any thread, until its ranks are done.
struct WorldControl {
  /// Every rank's calls throw Aborted from here on, on other processes within moments.
  std::function<void()> abort;
  std::function<bool()> is_aborted;
};

/// Makes the backend of a rank. What it is made of is called with the rank, or with nothing where
/// the ranks' backends are alike.
class BackendMaker {
 public:
  BackendMaker() = default;
  template <class Make, class = std::enable_if_t<!std::is_same_v<Make, BackendMaker>>>
  // A function is passed wherever a maker is meant.
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
  BackendMaker(Make make) {
    if constexpr (std::is_invocable_v<Make&, int>) {
      make_ = std::move(make);
    } else {
      make_ = [make = std::move(make)](int /*rank*/) { return make(); };
    }
  }

  [[nodiscard]] std::unique_ptr<Backend> operator()(int rank) const { return make_(rank); }

 private:
  std::function<std::unique_ptr<Backend>(int rank)> make_;
};

struct RankLaunch {
  int size = 1;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  BackendMaker make_backend = {};  ///< Called in every rank's thread.
  /// Of a job of at least `size` processes, of which the first are the ranks; null: threads.
  JobProcess* process = nullptr;
  /// Ranks are on GPUs, of which `make_backend` makes backends, and tensors travel over NCCL; what
  /// is no part of training goes the way it goes without, between backends of `make_host_backend`.
  bool uses_nccl = false;
  BackendMaker make_host_backend = {};
  /// For all processes to join NCCL, in which no watchdog knows the world; none: for ever.
  std::optional<Seconds> start_limit = {};
  /// Called once in every process, before the ranks begin.
  std::function<void(const WorldControl&)> on_start = {};
};

/// What a rank does; `world` and `backend` are its own. What it is made of may leave `host` out.
class RankBody {
 public:
  template <class Body, class = std::enable_if_t<!std::is_same_v<Body, RankBody>>>
  // A function is passed wherever a body is meant.
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
  RankBody(Body body) {
    if constexpr (std::is_invocable_v<Body&, Communicator&, Backend&, const HostSide&>) {
      body_ = std::move(body);
    } else {
      body_ = [body = std::move(body)](Communicator& world, Backend& backend,
                                       const HostSide& /*host*/) { body(world, backend); };
    }
  }

  void operator()(Communicator& world, Backend& backend, const HostSide& host) const {
    body_(world, backend, host);
  }

 private:
  std::function<void(Communicator& world, Backend& backend, const HostSide& host)> body_;
};

/// Runs `body` on every rank, each a thread with a stack of 4 MiB, and returns when all are done.
/// When a rank throws, the others are aborted, and what was thrown first is thrown on: an Error
/// with its status and "rank 3: " before its message, anything else as such an Error of status
/// kRuntimeFault; Aborted only where nothing else was thrown. A rank that waits for nothing is
/// joined when its body ends. Throws Error(kRuntimeFault) where a thread cannot be started.
///
/// With `launch.process` all processes call it, and each runs its own rank in the calling thread;
/// those beyond launch.size return at once.
/// The process of the rank that threw throws that on; the others throw Aborted, unless they fail
/// themselves. The job is to end with JobProcess::finish, which has the status.
void run_ranks(const RankLaunch& launch, const RankBody& body);

}  // namespace ptdp
