// How threads wait for messages, and how a job ends.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "runtime/transport/mpi_check.h"
#include "runtime/transport/mpi_engine.h"
#include "runtime/transport/polling.h"

namespace ptdp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAbortTag = 0;

constexpr auto kLockPatience = std::chrono::milliseconds(50);
constexpr auto kNoticePatience = std::chrono::milliseconds(50);
/// How long the others get to leave an aborted world before the job is ended.
constexpr auto kFarewell = std::chrono::seconds(2);
constexpr auto kLongestNap = std::chrono::microseconds(1000);

/// How long a send may take by itself before the courier looks after it.
constexpr auto kSendPatience = std::chrono::microseconds(100);
/// A thread that sleeps looks for an abort at least so often.
constexpr auto kLongestSleep = std::chrono::milliseconds(5);

}  // namespace

void MpiEngine::wait_until(const std::function<bool()>& is_over) {
  Lock lock(mutex_);
  ++num_waits_;
  while (true) {
    throw_if_aborted();
    if (is_over()) {
      return;
    }
    if (!is_polled_) {
      poll_until(lock, looks_, is_over);
      continue;
    }
    ++num_followers_;
    changed_.notify_all();  // whoever polls may sleep
    changed_.wait_for(lock, kLongestSleep);
    --num_followers_;
  }
}

// Returns early where the world is aborted.
void MpiEngine::poll_until(Lock& lock, int looks, const std::function<bool()>& is_over) {
  is_polled_ = true;
  Polling polling(looks);
  std::uint64_t waits_seen = num_waits_;
  try {
    while (!is_aborted()) {
      progress();
      if (std::exchange(has_news_, false) && num_followers_ > 0) {
        changed_.notify_all();
      }
      if (is_over()) {
        break;
      }
      if (std::exchange(waits_seen, num_waits_) != num_waits_) {
        polling = Polling(looks_);
      }
      polling.pause(lock, changed_);
    }
  } catch (...) {
    is_polled_ = false;
    changed_.notify_all();
    throw;
  }
  is_polled_ = false;
  if (num_followers_ > 0) {
    changed_.notify_all();
  } else {
    rouse_courier();
  }
}

void MpiEngine::rouse_courier() {
  if (!is_courier_awake_ && !is_polled_ && !send_requests_.empty()) {
    is_courier_awake_ = true;
    courier_work_.notify_one();
  }
}

void MpiEngine::deliver_sends() {
  pthread_setname_np(pthread_self(), "mpi courier");
  Lock lock(mutex_);
  while (!is_finishing_) {
    courier_work_.wait(lock, [this] { return is_finishing_ || is_courier_awake_; });
    // Most sends are done soon, and somebody waits for something soon.
    lock.unlock();
    std::this_thread::sleep_for(kSendPatience);
    lock.lock();
    is_courier_awake_ = false;
    if (!is_polled_ && !is_aborted() && !is_finishing_) {
      try {
        poll_until(lock, /*looks=*/0, [this] { return is_finishing_ || send_requests_.empty(); });
      } catch (const Error&) {  // The next call of a rank meets it too.
        return;
      }
    }
  }
}

void MpiEngine::stop_courier() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_finishing_ = true;
  }
  courier_work_.notify_all();
  changed_.notify_all();
  if (courier_.joinable()) {
    courier_.join();
  }
}

void MpiEngine::abort(int status) noexcept {
  int expected = 0;
  abort_status_.compare_exchange_strong(expected, status);
  if (is_aborted_.exchange(true)) {
    return;
  }
  changed_.notify_all();
  // Whoever holds the lock gives it up soon, unless MPI itself hangs.
  std::unique_lock lock(mutex_, std::defer_lock);
  const Clock::time_point deadline = Clock::now() + kLockPatience;
  while (!lock.try_lock()) {
    if (Clock::now() > deadline) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  try {
    tell_of_abort(abort_status_);
  } catch (...) {  // The others end with the job.
  }
}

void MpiEngine::tell_of_abort(int status) {
  for (int i = 1; i < size_; ++i) {
    Packet notice = pool_.take(1);
    notice.header() = {.world = world_, .status = status, .kind = PacketHeader::Kind::kAbort};
    start_send(std::move(notice), (rank_ + i) % size_, kAbortTag);
  }
  const Clock::time_point deadline = Clock::now() + kNoticePatience;
  while (!send_requests_.empty() && Clock::now() < deadline) {
    progress();
    std::this_thread::yield();
  }
}

// Takes in what still comes meanwhile, so that whoever sent it gets done with it. Rank 0 may write
// for long what the others wait for here; after an abort nobody does.
bool MpiEngine::all_came() {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(all_, &request), "MPI_Ibarrier");
  std::optional<Clock::time_point> deadline;
  auto sleep = std::chrono::microseconds(20);
  while (true) {
    int is_done = 0;
    check_mpi(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    progress();
    if (is_done != 0 && send_requests_.empty()) {
      return true;
    }
    if (is_aborted() && !deadline) {
      deadline = Clock::now() + kFarewell;
    }
    if (deadline && Clock::now() > *deadline) {
      return false;
    }
    std::this_thread::sleep_for(sleep);
    sleep = std::min(2 * sleep, kLongestNap);
  }
}

int MpiEngine::finish(int status) noexcept {
  stop_courier();
  const std::lock_guard lock(mutex_);
  const auto status_of_job = [&] { return is_aborted() ? abort_status() : status; };
  try {
    if (all_came()) {
      MPI_Type_free(&block_);
      MPI_Comm_free(&all_);
      MPI_Finalize();
      return status_of_job();
    }
  } catch (const Error&) {  // MPI does not work any more.
  }
  MPI_Abort(MPI_COMM_WORLD, status_of_job());
  return status_of_job();
}

}  // namespace ptdp
