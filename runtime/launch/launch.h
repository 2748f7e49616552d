// Starts and ends the ranks of a world, which are threads of this process or processes that a
// launcher started.
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

/// A request that all ranks end early. Any thread and any signal handler may raise it.
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

/// Returns whether any rank sees the flag raised. The answer is equal on all ranks of `world`,
/// which must all ask at the same point of their work. Sends one all-reduce of one element.
[[nodiscard]] bool agree_to_stop(const StopFlag& flag, Communicator& world, Backend& backend);

/// Functions that end the communication of a running world. Any thread may call them until its
/// ranks are done.
struct WorldControl {
  /// Makes every rank's calls throw Aborted from here on; on other processes, within moments.
  std::function<void()> abort;
  /// Returns whether the world was aborted.
  std::function<bool()> is_aborted;
};

/// A function that makes the backend of a rank. It is made from a function of the rank, or from one
/// without arguments when the ranks' backends are alike.
class BackendMaker {
 public:
  BackendMaker() = default;
  template <class Make, class = std::enable_if_t<!std::is_same_v<Make, BackendMaker>>>
  // Not explicit: a function is passed wherever a maker is meant.
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

/// How the ranks of a world are started.
struct RankLaunch {
  /// Number of ranks.
  int size = 1;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  BackendMaker make_backend = {};  ///< Makes the backends; called in every rank's thread.
  /// A job of at least `size` processes, the first of which are the ranks. Null for ranks that are
  /// threads.
  JobProcess* process = nullptr;
  /// Whether tensors travel over NCCL between ranks on GPUs, whose backends `make_backend` makes.
  /// All else then travels between the backends of `make_host_backend`, as it does without NCCL.
  bool uses_nccl = false;
  /// Makes the backends for what does not travel over NCCL.
  BackendMaker make_host_backend = {};
  /// Time in which all processes must join NCCL; no limit when empty. No watchdog knows the world
  /// during that time.
  std::optional<Seconds> start_limit = {};
  /// Called once in every process, before the ranks begin.
  std::function<void(const WorldControl&)> on_start = {};
};

/// What a rank does, called with a world and a backend of its own. It is made from a function that
/// takes `host` too or leaves it out.
class RankBody {
 public:
  template <class Body, class = std::enable_if_t<!std::is_same_v<Body, RankBody>>>
  // Not explicit: a function is passed wherever a body is meant.
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
/// When a rank throws, the others are aborted and the first exception is rethrown. An Error keeps
/// its status and gets "rank 3: " before its message. Any other exception becomes such an Error
/// with status kRuntimeFault. Aborted is thrown only if no rank threw anything else. A rank that
/// waits for nothing is joined when its body ends. Throws Error(kRuntimeFault) when a thread cannot
/// be started.
///
/// With `launch.process` all processes must call it. Each runs its own rank in the calling thread;
/// processes beyond launch.size return at once. The process whose rank threw rethrows that; the
/// others throw Aborted, unless they fail themselves. End the job with JobProcess::finish, with the
/// status.
void run_ranks(const RankLaunch& launch, const RankBody& body);

}  // namespace ptdp
