// Runs work of a rank in order, beside what else the rank does.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace ptdp {

/// A lane (cost_model/schedule/lane.h) on a host: a queue of work with a thread of its own, or
/// without one. Without a thread the caller runs the work. One thread must make all calls of post()
/// and wait().
class LaneThread {
 public:
  using Work = std::function<void()>;
  /// Number of pieces of work posted so far, this one included.
  using Ticket = std::uint64_t;

  /// Makes a lane with its own thread. Debuggers show at most 15 characters of `name`. When work
  /// throws, the lane's thread calls `on_failure` with the exception, to free whoever waits for
  /// that work. Throws Error(kRuntimeFault) when a thread cannot be started.
  static LaneThread beside(const std::string& name,
                           std::function<void(const std::exception_ptr&)> on_failure);
  /// Makes a lane without a thread: post() runs the work and throws what it throws.
  LaneThread() = default;
  LaneThread(const LaneThread&) = delete;
  LaneThread& operator=(const LaneThread&) = delete;
  LaneThread(LaneThread&&) = delete;
  LaneThread& operator=(LaneThread&&) = delete;
  /// Drops work that has not begun, and waits for work that runs.
  ~LaneThread();

  /// Returns whether the lane has a thread of its own.
  [[nodiscard]] bool is_beside() const { return thread_.joinable(); }
  /// Runs `work` after all work posted before, and returns its ticket. Once work has thrown, the
  /// lane runs nothing more.
  Ticket post(Work work);
  /// Returns once the work of `ticket` is done. Throws what that work, or work before it, threw.
  void wait(Ticket ticket);
  /// Waits for all work posted so far.
  void wait() { wait(posted_); }
  /// Returns the ticket of the last work posted.
  [[nodiscard]] Ticket posted() const { return posted_; }
  /// Returns the exception that work threw; null when none did.
  [[nodiscard]] std::exception_ptr failure() const;

 private:
  LaneThread(const std::string& name, std::function<void(const std::exception_ptr&)> on_failure);
  void run();

  std::function<void(const std::exception_ptr&)> on_failure_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  Ticket posted_ = 0;
  Ticket done_ = 0;
  bool is_ending_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace ptdp
