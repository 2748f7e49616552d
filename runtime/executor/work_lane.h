// Work of a rank that runs in order, beside what else the rank does.
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

/// A lane (cost_model/schedule/lane.h) on a host: a queue with a thread of its own, or none, where
/// work takes its turn with the caller's. post() and wait() are one thread's.
class WorkLane {
 public:
  using Work = std::function<void()>;
  /// How much had been posted, this included.
  using Ticket = std::uint64_t;

  /// `name` is the thread's, for debuggers; at most 15 characters are used. `on_failure` is called
  /// on the lane's thread with what work threw, to free whoever waits for that work. Throws
  /// Error(kRuntimeFault) where a thread cannot be started.
  static WorkLane beside(const std::string& name,
                         std::function<void(const std::exception_ptr&)> on_failure);
  /// Without a thread: post() runs the work and throws what it throws.
  WorkLane() = default;
  WorkLane(const WorkLane&) = delete;
  WorkLane& operator=(const WorkLane&) = delete;
  WorkLane(WorkLane&&) = delete;
  WorkLane& operator=(WorkLane&&) = delete;
  /// What is posted and not begun is dropped; what runs is waited for.
  ~WorkLane();

  /// Whether it has a thread of its own.
  [[nodiscard]] bool is_beside() const { return thread_.joinable(); }
  /// Runs `work` behind what was posted before. After work threw, nothing runs.
  Ticket post(Work work);
  /// Returns once the work of `ticket` is done; throws what it, or work before it, threw.
  void wait(Ticket ticket);
  /// For all that was posted.
  void wait() { wait(posted_); }
  /// The last one.
  [[nodiscard]] Ticket posted() const { return posted_; }
  /// What work threw, if any did.
  [[nodiscard]] std::exception_ptr failure() const;

 private:
  WorkLane(const std::string& name, std::function<void(const std::exception_ptr&)> on_failure);
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
