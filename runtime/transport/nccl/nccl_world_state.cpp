// Makes and polls NCCL's calls, and aborts all communicators when one fails.
#include "runtime/transport/nccl/nccl_world_state.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "cost_model/error.h"
#include "runtime/named_thread.h"

namespace ptdp {
namespace {

using std::chrono::steady_clock;

/// How often a communicator is asked whether it failed. A rank that sleeps until its GPU is done
/// does not ask.
constexpr std::chrono::milliseconds kWatchPeriod(100);
/// The longest pause between looks at a call in progress.
constexpr std::chrono::microseconds kLongestPause(1000);
/// How long an abort waits for a call to return, as calls do that wait for no other rank.
constexpr std::chrono::milliseconds kLongestCall(200);
/// How long a thread only yields while a call is in progress. NCCL makes a nonblocking call on a
/// thread of its own, within tens of microseconds; a sleep would take longer.
constexpr std::chrono::microseconds kYielding(200);

ncclConfig_t config_of(bool is_blocking, int most_blocks) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = is_blocking ? 1 : 0;
  config.maxCTAs = most_blocks;
  // Resources are not shared, because ranks use several communicators at once.
  config.splitShare = 0;
  return config;
}

/// Returns ncclInProgress until the calls that were made of a communicator are done.
ncclResult_t state_of(ncclComm_t communicator) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = nccl_library().comm_get_async_error(communicator, &state);
  return asked == ncclSuccess ? state : asked;
}

}  // namespace

std::int64_t NcclEnd::now_ns() {
  return std::chrono::nanoseconds(steady_clock::now().time_since_epoch()).count();
}

void NcclEnd::throw_if_ended() const {
  world_.throw_if_ended(rank_);
}

std::string NcclEnd::described(std::string_view call, const std::string& what) const {
  return "NCCL, " + name_ + ": " + std::string(call) + ": " + what;
}

void NcclEnd::join(const NcclId& id, int size, int place, int most_blocks) {
  call("ncclCommInitRankConfig", [&](ncclComm_t& communicator) {
    ncclUniqueId unique = {};
    static_assert(sizeof(unique) == sizeof(id.bytes));
    std::memcpy(&unique, id.bytes.data(), sizeof(unique));
    ncclConfig_t config = config_of(/*is_blocking=*/false, most_blocks);
    return nccl_library().comm_init_rank_config(&communicator, size, unique, place, &config);
  });
}

void NcclEnd::split(int colour, int key, const SplitOptions& options, NcclEnd& part) {
  ncclConfig_t config = config_of(options.is_blocking, options.most_blocks);
  call("ncclCommSplit", [&](ncclComm_t communicator) {
    const ncclResult_t begun =
        nccl_library().comm_split(communicator, colour, key, &part.communicator_, &config);
    // NCCL says "success" of a split that has only begun. It writes to `part` when the split is
    // done, and until then the communicator that is split is in progress.
    return begun == ncclSuccess ? state_of(communicator) : begun;
  });
  if (colour != NCCL_SPLIT_NOCOLOR) {
    part.call("ncclCommSplit", state_of);
    part.is_blocking_ = options.is_blocking;
  }
}

void NcclEnd::finish(std::unique_lock<std::mutex>& lock, std::string_view name,
                     ncclResult_t result) {
  const NcclLibrary& nccl = nccl_library();
  const auto start = steady_clock::now();
  std::chrono::microseconds pause(0);
  while (result == ncclInProgress) {
    lock.unlock();
    if (steady_clock::now() - start < kYielding) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause + std::chrono::microseconds(1), kLongestPause);
    }
    lock.lock();
    throw_if_ended();
    if (std::chrono::duration<double>(steady_clock::now() - start).count() >
        world_.deadline().value()) {
      throw Error(described(name, "still in progress after " +
                                      std::to_string(std::lround(world_.deadline().value())) +
                                      " s: expected all of its ranks to make this call; one of "
                                      "them does not come"),
                  ExitStatus::kRuntimeFault);
    }
    result = state_of(communicator_);
  }
  if (result != ncclSuccess) {
    throw_if_ended();  // An abort ends a call that blocks, with an error of its own.
    throw Error(described(name, std::string(nccl.get_error_string(result)) + " (" +
                                    nccl.get_last_error(communicator_) + ")"),
                ExitStatus::kRuntimeFault);
  }
}

bool NcclEnd::close() noexcept {
  const NcclLibrary& nccl = nccl_library();
  try {
    call("ncclCommFinalize",
         [&](ncclComm_t communicator) { return nccl.comm_finalize(communicator); });
  } catch (...) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  // Whoever claims the communicator ends it: an abort need not have the lock.
  if (!is_gone_.exchange(true) && nccl.comm_destroy(communicator_) != ncclSuccess) {
    is_gone_ = false;
    return false;
  }
  return true;
}

void NcclEnd::abort() noexcept {
  std::unique_lock lock(mutex_, std::try_to_lock);
  const auto start = steady_clock::now();
  while (!lock.owns_lock() && steady_clock::now() - start < kLongestCall) {
    std::this_thread::sleep_for(kLongestPause);
    static_cast<void>(lock.try_lock());
  }
  if (!is_gone_.exchange(true) && communicator_ != nullptr) {
    static_cast<void>(nccl_library().comm_abort(communicator_));
  }
}

std::string NcclEnd::fault() {
  const std::int64_t began = call_began_;
  const double seconds = 1e-9 * static_cast<double>(now_ns() - began);
  if (is_blocking_ && began != 0 && seconds > world_.deadline().value()) {
    return described("a call", "not done after " + std::to_string(std::lround(seconds)) +
                                   " s: expected all of its ranks to make it; one of them does not "
                                   "come");
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || is_gone_ || communicator_ == nullptr) {
    return "";
  }
  const NcclLibrary& nccl = nccl_library();
  const ncclResult_t state = state_of(communicator_);
  if (state == ncclSuccess || state == ncclInProgress) {
    return "";
  }
  return described("ncclCommGetAsyncError", std::string(nccl.get_error_string(state)) + " (" +
                                                nccl.get_last_error(communicator_) + ")");
}

NcclWorldState::NcclWorldState(const NcclId& id, int size, const NcclOptions& options)
    : id_(id),
      size_(size),
      options_(options),
      watcher_(named_thread("nccl watcher", [this] { watch(); })) {}

NcclWorldState::~NcclWorldState() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  watcher_.join();
}

std::shared_ptr<NcclEnd> NcclWorldState::add(int rank, std::string name) {
  const std::lock_guard lock(mutex_);
  ends_.push_back(std::make_shared<NcclEnd>(*this, rank, std::move(name)));
  return ends_.back();
}

void NcclWorldState::close(const std::shared_ptr<NcclEnd>& end) noexcept {
  if (!is_aborted_ && end->close()) {
    const std::lock_guard lock(mutex_);
    std::erase(ends_, end);
  } else {
    abort();
  }
}

void NcclWorldState::abort() noexcept {
  is_aborted_ = true;
  changed_.notify_all();
}

void NcclWorldState::throw_if_ended(int rank) {
  if (!is_aborted_) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (rank == failed_rank_) {
    throw Error(failure_, ExitStatus::kRuntimeFault);
  }
  throw Aborted();
}

void NcclWorldState::fail(int rank, std::string failure) {
  const std::lock_guard lock(mutex_);
  if (!is_aborted_) {
    failure_ = std::move(failure);
    failed_rank_ = rank;
    is_aborted_ = true;
  }
}

/// Aborts all ends in one group of NCCL calls, so that none waits for another's kernel to end. Ends
/// in a call come last: NCCL waits for the call, which may wait for a kernel of another end.
void NcclWorldState::abort_all(Ends ends) noexcept {
  std::partition(ends.begin(), ends.end(),
                 [](const std::shared_ptr<NcclEnd>& end) { return !end->is_in_call(); });
  const NcclLibrary& nccl = nccl_library();
  static_cast<void>(nccl.group_start());
  for (const std::shared_ptr<NcclEnd>& end : ends) {
    end->abort();
  }
  static_cast<void>(nccl.group_end());
}

void NcclWorldState::watch() {
  bool is_over = false;
  while (!is_over) {
    std::unique_lock lock(mutex_);
    // After an abort, ends that other threads still add are looked for from time to time.
    changed_.wait_for(lock, kWatchPeriod,
                      [this] { return is_ending_ || (is_aborted_ && !ends_.empty()); });
    is_over = is_ending_;
    const bool aborts = is_aborted_;
    Ends ends = aborts ? std::exchange(ends_, {}) : ends_;
    lock.unlock();
    if (aborts) {
      abort_all(std::move(ends));
      continue;
    }
    for (const std::shared_ptr<NcclEnd>& end : ends) {
      if (std::string fault = end->fault(); !fault.empty()) {
        fail(end->rank(), std::move(fault));
        break;
      }
    }
  }
}

}  // namespace ptdp
