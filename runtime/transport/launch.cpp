#include "runtime/transport/launch.h"

#include <pthread.h>

#include <cassert>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <string>

#include "cost_model/error.h"
#include "runtime/transport/thread_world.h"

namespace ptdp {
namespace {

constexpr std::size_t kStackBytes = std::size_t{4} << 20;

/// Throws what a rank threw on, as an Error that names the rank.
[[noreturn]] void throw_of_rank(int rank, const std::exception_ptr& cause) {
  const std::string place = "rank " + std::to_string(rank) + ": ";
  try {
    std::rethrow_exception(cause);
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

/// What went wrong first; the others only heard of it.
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
  /// After all ranks ended.
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

/// What a rank's thread is given.
struct RankThread {
  const RankLaunch* launch = nullptr;
  const RankBody* body = nullptr;
  ThreadWorld* world = nullptr;
  FirstFailure* failure = nullptr;
  int rank = 0;
  pthread_t thread = {};

  void run() const {
    try {
      const std::unique_ptr<Backend> backend = launch->make_backend(rank);
      const std::unique_ptr<Communicator> communicator = world->communicator(rank, *backend);
      (*body)(*communicator, *backend);
    } catch (const Aborted&) {
      fail(/*is_aborted=*/true);
    } catch (...) {
      fail(/*is_aborted=*/false);
    }
  }
  void fail(bool is_aborted) const {
    failure->record(rank, std::current_exception(), is_aborted);
    world->abort();
  }
};

void* run_thread(void* argument) {
  const auto* const thread = static_cast<const RankThread*>(argument);
  pthread_setname_np(pthread_self(), ("rank " + std::to_string(thread->rank)).c_str());
  thread->run();
  return nullptr;
}

/// Zero, or why it did not start.
int start(RankThread& thread) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const int fault = pthread_create(&thread.thread, &attributes, &run_thread, &thread);
  pthread_attr_destroy(&attributes);
  return fault;
}

void run_rank_of_process(const RankLaunch& launch, const RankBody& body) {
  MpiProcess& process = *launch.process;
  assert(launch.size <= process.size());
  MpiWorld world(process, launch.size, launch.algorithm);
  if (process.rank() >= launch.size) {
    return;
  }
  const auto abort = [&](ExitStatus status) { world.abort(static_cast<int>(status)); };
  if (launch.on_start) {
    launch.on_start({.abort = [&] { abort(ExitStatus::kRuntimeFault); },
                     .is_aborted = [&] { return world.is_aborted(); }});
  }
  try {
    const std::unique_ptr<Backend> backend = launch.make_backend(process.rank());
    const std::unique_ptr<Communicator> communicator = world.communicator(*backend);
    body(*communicator, *backend);
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
  if (launch.on_start) {
    launch.on_start(
        {.abort = [&] { world.abort(); }, .is_aborted = [&] { return world.is_aborted(); }});
  }
  FirstFailure failure;
  std::deque<RankThread> threads;
  for (int rank = 0; rank < launch.size; ++rank) {  // before one runs, since this may throw
    threads.push_back({&launch, &body, &world, &failure, rank});
  }
  for (int rank = 0; rank < launch.size; ++rank) {
    if (const int fault = start(threads[static_cast<std::size_t>(rank)]); fault != 0) {
      threads.resize(static_cast<std::size_t>(rank));
      const std::string reason = std::strerror(fault);
      failure.record(rank,
                     std::make_exception_ptr(
                         Error("cannot start its thread: " + reason, ExitStatus::kRuntimeFault)),
                     /*is_aborted=*/false);
      world.abort();
      break;
    }
  }
  for (const RankThread& thread : threads) {
    pthread_join(thread.thread, nullptr);
  }
  failure.rethrow();
}

}  // namespace ptdp
