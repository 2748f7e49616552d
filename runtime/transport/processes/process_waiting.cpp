// How threads wait for messages, and how an aborted world ends.
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "runtime/transport/polling.h"
#include "runtime/transport/processes/process_engine.h"

namespace ptdp {
namespace {

/// How long abort() waits for the courier to tell other processes.
constexpr auto kTellingPatience = std::chrono::milliseconds(100);
/// How long the courier waits for its notices of an abort to leave.
constexpr auto kNoticePatience = std::chrono::milliseconds(50);

/// How long a send may take by itself before the courier looks after it.
constexpr auto kSendPatience = std::chrono::microseconds(100);
/// How long other processes get to leave an aborted world before the job is ended.
constexpr auto kFarewell = std::chrono::seconds(2);
/// The longest sleep between two looks of progress_until().
constexpr auto kLongestNap = std::chrono::microseconds(1000);
/// The longest sleep of a thread that waits for the one that polls; it then looks for an abort.
constexpr auto kLongestSleep = std::chrono::milliseconds(5);

}  // namespace

void ProcessEngine::wait_until(const std::function<bool()>& is_over) {
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
    changed_.notify_all();  // The polling thread may be asleep.
    changed_.wait_for(lock, kLongestSleep);
    --num_followers_;
  }
}

// It returns early when the world is aborted.
void ProcessEngine::poll_until(Lock& lock, int looks, const std::function<bool()>& is_over) {
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

void ProcessEngine::rouse_courier() {
  if (!is_courier_awake_ && !is_polled_ && has_unsent()) {
    is_courier_awake_ = true;
    courier_work_.notify_one();
  }
}

void ProcessEngine::deliver_sends() {
  Lock lock(mutex_);
  const auto has_work = [this] {
    return is_finishing_ || is_courier_awake_ || telling_ == Telling::kAsked;
  };
  while (!is_finishing_) {
    if (telling_ == Telling::kAsked) {
      tell_of_abort(abort_status_);
      telling_ = Telling::kDone;
    }
    if (const auto interval = idle_interval(); !interval) {
      courier_work_.wait(lock, has_work);
    } else if (!courier_work_.wait_for(lock, *interval, has_work)) {
      look_while_idle();
      continue;
    }
    // Most sends finish soon by themselves, and soon some thread waits and polls.
    lock.unlock();
    std::this_thread::sleep_for(kSendPatience);
    lock.lock();
    is_courier_awake_ = false;
    if (!is_polled_ && !is_aborted() && !is_finishing_) {
      try {
        poll_until(lock, /*looks=*/0, [this] { return is_finishing_ || !has_unsent(); });
      } catch (const Error&) {  // The next call of a rank meets it too.
        courier_work_.wait(lock, [this] { return is_finishing_ || telling_ == Telling::kAsked; });
      }
    }
  }
}

void ProcessEngine::look_while_idle() {
  if (is_polled_) {
    return;
  }
  try {
    progress();
    if (std::exchange(has_news_, false) && num_followers_ > 0) {
      changed_.notify_all();
    }
  } catch (const Error&) {  // The next call of a rank meets it too.
  }
}

void ProcessEngine::stop_courier() noexcept {
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

void ProcessEngine::abort(int status) noexcept {
  int expected = 0;
  abort_status_.compare_exchange_strong(expected, status);
  if (is_aborted_.exchange(true)) {
    return;
  }
  changed_.notify_all();
  if (place_.size == 1) {
    return;
  }
  // The courier tells the others. MPI may hang when a process is gone, and the thread that ends the
  // run must not hang.
  telling_ = Telling::kAsked;
  const Clock::time_point deadline = Clock::now() + kTellingPatience;
  while (telling_ == Telling::kAsked && Clock::now() < deadline) {
    courier_work_.notify_all();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

bool ProcessEngine::progress_until(const std::function<bool()>& is_over,
                                   std::optional<Clock::time_point> deadline) {
  auto sleep = std::chrono::microseconds(20);
  while (true) {
    progress();
    if (is_over()) {
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

void ProcessEngine::tell_of_abort(int status) {
  try {
    spread_abort(status);
    const Clock::time_point deadline = Clock::now() + kNoticePatience;
    while (has_unsent() && Clock::now() < deadline) {
      progress();
      std::this_thread::yield();
    }
  } catch (const std::exception&) {  // The others end with the job.
  }
}

}  // namespace ptdp
