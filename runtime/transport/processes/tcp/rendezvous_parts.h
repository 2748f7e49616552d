// The two parts of a meeting over TCP: rank 0's, and that of every other rank.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "runtime/steady_clock.h"
#include "runtime/transport/processes/tcp/tcp_rendezvous.h"

namespace ptdp {

using RendezvousClock = std::chrono::steady_clock;

/// Runs rank 0's part of a meeting and returns its result. Throws as join_tcp_job() does.
[[nodiscard]] Rendezvous host_rendezvous(const TcpJobOptions& options, PacketPool& pool);
/// Runs the part of a rank above 0 in a meeting and returns its result. Throws as join_tcp_job()
/// does.
[[nodiscard]] Rendezvous join_rendezvous(const TcpJobOptions& options, PacketPool& pool);

/// How long a caller may take to say who it is, and rank 0 to answer that.
inline constexpr auto kHelloPatience = std::chrono::seconds(10);
/// Throws Error(kRuntimeFault) with the text `what`.
[[noreturn]] void fail_to_meet(const std::string& what);

/// The time limit of a meeting, and the times to report what the meeting waits for.
class Patience {
 public:
  explicit Patience(const TcpJobOptions& options)
      : options_(&options), next_notice_(begin_ + steady_duration(options.notice_interval)) {}

  /// Returns whether the time limit has passed.
  [[nodiscard]] bool is_over() const { return RendezvousClock::now() >= end(); }
  /// Returns the time limit, or the largest time when there is none.
  [[nodiscard]] RendezvousClock::time_point end() const {
    return options_->timeout ? begin_ + steady_duration(*options_->timeout)
                             : RendezvousClock::time_point::max();
  }
  /// Returns the time since the meeting began [s].
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(RendezvousClock::now() - begin_).count();
  }
  /// Reports what the meeting waits for, once per notice interval. Calls `what` only when a report
  /// is due.
  void notice(const std::function<std::string()>& what);

 private:
  const TcpJobOptions* options_;
  RendezvousClock::time_point begin_ = RendezvousClock::now();
  RendezvousClock::time_point next_notice_;
};

}  // namespace ptdp
