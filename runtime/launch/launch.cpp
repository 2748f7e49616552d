#include "runtime/launch/launch.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>

#include "cost_model/error.h"
#include "runtime/phase_limit.h"
#include "runtime/transport/gathering.h"
#include "runtime/transport/nccl/nccl_world.h"
#include "runtime/transport/threads/thread_world.h"

namespace ptdp {
namespace {

/// Size of a rank thread's stack [B].
constexpr std::size_t kStackBytes = std::size_t{4} << 20;

/// Throws an exception of a rank on, as an Error whose message names the rank.
[[noreturn]] void throw_of_rank(int rank, const std::exception_ptr& cause) {
  const std::string place = "rank " + std::to_string(rank) + ": ";
  try {
    std::rethrow_exception(cause);
  } catch (const PeerLost&) {
    throw;  // its message names the rank at fault
  } catch (const Error& error) {
    if (!error.picture().empty()) {
      throw Error(place + error.what(), error.picture());
    }
    throw Error(place + error.what(), error.status());
  } catch (const Aborted&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(place + error.what(), ExitStatus::kRuntimeFault);
  } catch (...) {
    throw Error(place + "unknown exception", ExitStatus::kRuntimeFault);
  }
}

/// The exception that ended the run. An exception of a rank that only heard of the end (Aborted)
/// counts if there is no other.
class FirstFailure {
 public:
  void record(int rank, std::exception_ptr cause, bool is_aborted) {
    const std::lock_guard lock(mutex_);
    if (cause_ == nullptr || (was_aborted_ && !is_aborted)) {
      cause_ = std::move(cause);
      rank_ = rank;
      was_aborted_ = is_aborted;
    }
  }
  /// Throws the recorded exception, if any. Call it after all ranks ended.
  void rethrow() const {
    if (cause_ != nullptr) {
      throw_of_rank(rank_, cause_);
    }
  }

 private:
  std::mutex mutex_;
  std::exception_ptr cause_;
  int rank_ = 0;
  bool was_aborted_ = false;
};

/// This process's world over NCCL, made once its id is known.
class NcclHolder {
 public:
  void make(const NcclId& id, int size) {
    const std::lock_guard lock(mutex_);
    world_ = std::make_unique<NcclWorld>(id, size);
    if (is_aborted_) {
      world_->abort();
    }
  }
  [[nodiscard]] NcclWorld& world() { return *world_; }
  /// Aborts the world, or has it aborted once it is made. Any thread may call it.
  void abort() noexcept {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
    if (world_ != nullptr) {
      world_->abort();
    }
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<NcclWorld> world_;
  bool is_aborted_ = false;
};

/// A function that makes a rank's communicator over the hosts.
using JoinHost = std::function<std::unique_ptr<Communicator>(Backend& backend)>;
/// A function that makes a rank's communicator over NCCL, given the one over the hosts.
using JoinNccl =
    std::function<std::unique_ptr<Communicator>(Backend& backend, const HostSide& host)>;

/// Makes the backends and communicators of one rank and runs its body.
void run_rank(const RankLaunch& launch, const RankBody& body, int rank, const JoinHost& join,
              const JoinNccl& join_nccl) {
  const std::unique_ptr<Backend> backend = launch.make_backend(rank);
  if (!launch.uses_nccl) {
    const std::unique_ptr<Communicator> world = join(*backend);
    body(*world, *backend, {.world = *world, .backend = *backend});
    return;
  }
  const std::unique_ptr<Backend> host_backend = launch.make_host_backend(rank);
  const std::unique_ptr<Communicator> host_world = join(*host_backend);
  const HostSide host{.world = *host_world, .backend = *host_backend};
  const std::unique_ptr<Communicator> world = join_nccl(*backend, host);
  body(*world, *backend, host);
}

/// The arguments of a rank's thread.
struct RankThread {
  const RankLaunch* launch = nullptr;
  const RankBody* body = nullptr;
  ThreadWorld* world = nullptr;
  NcclHolder* nccl = nullptr;
  FirstFailure* failure = nullptr;
  int rank = 0;
  pthread_t thread = {};

  void run() const {
    try {
      run_rank(
          *launch, *body, rank,
          [&](Backend& backend) { return world->communicator(rank, backend); },
          [&](Backend& backend, const HostSide& host) {
            return nccl->world().communicator(rank, backend, host);
          });
    } catch (const Aborted&) {
      fail(/*is_aborted=*/true);
    } catch (...) {
      fail(/*is_aborted=*/false);
    }
  }
  /// Notes the current exception and aborts all ranks.
  void fail(bool is_aborted) const {
    failure->record(rank, std::current_exception(), is_aborted);
    world->abort();
    nccl->abort();
  }
};

void* run_thread(void* argument) {
  const auto* const thread = static_cast<const RankThread*>(argument);
  pthread_setname_np(pthread_self(), ("rank " + std::to_string(thread->rank)).c_str());
  thread->run();
  return nullptr;
}

/// Starts the thread. Returns 0, or an error number of pthread_create().
int start(RankThread& thread) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const int fault = pthread_create(&thread.thread, &attributes, &run_thread, &thread);
  pthread_attr_destroy(&attributes);
  return fault;
}

/// Sends rank 0's NCCL id to all ranks and returns it.
NcclId spread_id(const HostSide& host) {
  NcclId id;
  std::string bytes;
  if (host.world.rank() == 0) {
    id = make_nccl_id();
    bytes.assign(id.bytes.begin(), id.bytes.end());
  }
  bytes = broadcast_bytes(host.world, host.backend, std::move(bytes));
  std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
  return id;
}

/// Makes this process's communicator over NCCL. When the other processes take longer than the
/// launch allows, `abort` ends the wait. Rank 0's limit is shorter, so that it speaks first: it
/// knows best which rank is missing.
std::unique_ptr<Communicator> join_nccl_in_time(const RankLaunch& launch, NcclHolder& nccl,
                                                const std::function<void()>& abort,
                                                Backend& backend, const HostSide& host) {
  const JobProcess& process = *launch.process;
  constexpr Seconds later(0.5);
  const std::optional<Seconds> limit = launch.start_limit;
  std::string awaited = "rank 0: its start";
  const PhaseLimit limited(limit && process.rank() > 0 ? *limit + later : limit, abort);
  try {
    // The gather is a roll call, since NCCL itself does not say who is missing.
    static_cast<void>(gather_bytes(host.world, host.backend, "", [&](int rank) {
      awaited = fmt::format("rank {}: its start", rank);
    }));
    awaited = process.rank() == 0 ? "the start" : awaited;
    nccl.make(spread_id(host), launch.size);
    return nccl.world().communicator(process.rank(), backend, host);
  } catch (const PeerLost& lost) {
    throw PeerLost(fmt::format("the start: {}", lost.what()));
  } catch (const Aborted&) {
    if (!limited.has_expired()) {
      throw;
    }
    throw PeerLost(fmt::format(
        "{}: rank {} on host {} waits to join NCCL; expected at most {:.4g} s (--deadline)",
        awaited, process.rank(), process.host(), limit->value()));
  }
}

/// Runs this process's rank of a job.
void run_rank_of_process(const RankLaunch& launch, const RankBody& body) {
  JobProcess& process = *launch.process;
  assert(launch.size <= process.size());
  const std::unique_ptr<JobWorld> world = process.make_world(launch.size, launch.algorithm);
  if (process.rank() >= launch.size) {
    return;
  }
  NcclHolder nccl;
  const auto abort = [&](ExitStatus status) {
    world->abort(static_cast<int>(status));
    nccl.abort();
  };
  if (launch.on_start) {
    launch.on_start({.abort = [&] { abort(ExitStatus::kRuntimeFault); },
                     .is_aborted = [&] { return world->is_aborted(); }});
  }
  try {
    run_rank(
        launch, body, process.rank(),
        [&](Backend& backend) { return world->communicator(backend); },
        [&](Backend& backend, const HostSide& host) {
          return join_nccl_in_time(
              launch, nccl, [&] { abort(ExitStatus::kRuntimeFault); }, backend, host);
        });
  } catch (const Aborted&) {
    abort(ExitStatus::kRuntimeFault);
    throw;
  } catch (const Error& error) {
    abort(error.status());
    throw_of_rank(process.rank(), std::current_exception());
  } catch (...) {
    abort(ExitStatus::kRuntimeFault);
    throw_of_rank(process.rank(), std::current_exception());
  }
}

}  // namespace

bool agree_to_stop(const StopFlag& flag, Communicator& world, Backend& backend) {
  const Tensor votes(backend, DataType::kFloat32, 1);
  const float vote = flag.is_raised() ? 1.0F : 0.0F;
  backend.copy_in(&vote, votes);
  world.all_reduce(votes, Reduction::kMaximum);
  float result = 0.0F;
  backend.copy_out(votes, &result);
  return result > 0.0F;
}

void run_ranks(const RankLaunch& launch, const RankBody& body) {
  if (launch.process != nullptr) {
    run_rank_of_process(launch, body);
    return;
  }
  ThreadWorld world(launch.size, launch.algorithm);
  NcclHolder nccl;
  if (launch.uses_nccl) {
    nccl.make(make_nccl_id(), launch.size);
  }
  const auto abort = [&] {
    world.abort();
    nccl.abort();
  };
  if (launch.on_start) {
    launch.on_start({.abort = abort, .is_aborted = [&] { return world.is_aborted(); }});
  }
  FirstFailure failure;
  std::deque<RankThread> threads;
  // All are made before one runs, since this may throw.
  for (int rank = 0; rank < launch.size; ++rank) {
    threads.push_back({&launch, &body, &world, &nccl, &failure, rank});
  }
  for (int rank = 0; rank < launch.size; ++rank) {
    if (const int fault = start(threads[static_cast<std::size_t>(rank)]); fault != 0) {
      threads.resize(static_cast<std::size_t>(rank));
      const std::string reason = std::strerror(fault);
      failure.record(rank,
                     std::make_exception_ptr(
                         Error("cannot start its thread: " + reason, ExitStatus::kRuntimeFault)),
                     /*is_aborted=*/false);
      abort();
      break;
    }
  }
  for (const RankThread& thread : threads) {
    pthread_join(thread.thread, nullptr);
  }
  failure.rethrow();
}

}  // namespace ptdp
