#include "runtime/executor/lane_thread.h"

#include <utility>

#include "runtime/named_thread.h"

namespace ptdp {

LaneThread LaneThread::beside(const std::string& name,
                              std::function<void(const std::exception_ptr&)> on_failure) {
  return {name, std::move(on_failure)};
}

LaneThread::LaneThread(const std::string& name,
                       std::function<void(const std::exception_ptr&)> on_failure)
    : on_failure_(std::move(on_failure)), thread_(named_thread(name, [this] { run(); })) {}

LaneThread::~LaneThread() {
  if (!thread_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

LaneThread::Ticket LaneThread::post(Work work) {
  if (!thread_.joinable()) {
    work();
    done_ = ++posted_;
    return posted_;
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++posted_;
  }
  changed_.notify_all();
  return posted_;
}

void LaneThread::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= ticket || failure_ != nullptr; });
  if (done_ < ticket) {
    std::rethrow_exception(failure_);
  }
}

std::exception_ptr LaneThread::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void LaneThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_ending_ || (!queue_.empty() && failure_ == nullptr); });
    if (is_ending_) {
      return;
    }
    Work work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    work = nullptr;  // releases what the work holds before it counts as done
    lock.lock();
    failure_ = failure;
    done_ += failure == nullptr ? 1 : 0;
    lock.unlock();
    changed_.notify_all();
    if (failure != nullptr) {
      on_failure_(failure);
    }
    lock.lock();
  }
}

}  // namespace ptdp
