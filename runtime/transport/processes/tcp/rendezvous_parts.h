// The two parts of a meeting over TCP: that of rank 0, and that of every other rank.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "runtime/steady_clock.h"
#include "runtime/transport/processes/tcp/tcp_rendezvous.h"

namespace ptdp {

using RendezvousClock = std::chrono::steady_clock;

/// The part of rank 0; throws as join_tcp_job() does.
[[nodiscard]] Rendezvous host_rendezvous(const TcpJobOptions& options, PacketPool& pool);
/// The part of a rank above 0; throws as join_tcp_job() does.
[[nodiscard]] Rendezvous join_rendezvous(const TcpJobOptions& options, PacketPool& pool);

/// For somebody who connected to say who he is, and for an answer to that.
inline constexpr auto kHelloPatience = std::chrono::seconds(10);
/// Throws Error(kRuntimeFault).
[[noreturn]] void fail_to_meet(const std::string& what);

/// The time of a meeting: how long it may take, and when to say what is waited for.
class Patience {
 public:
  explicit Patience(const TcpJobOptions& options)
      : options_(&options), next_notice_(begin_ + steady_duration(options.notice_interval)) {}

  [[nodiscard]] bool is_over() const { return RendezvousClock::now() >= end(); }
  [[nodiscard]] RendezvousClock::time_point end() const {
    return options_->timeout ? begin_ + steady_duration(*options_->timeout)
                             : RendezvousClock::time_point::max();
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(RendezvousClock::now() - begin_).count();
  }
  /// Says what is waited for, where it is time to.
  void notice(const std::function<std::string()>& what);

 private:
  const TcpJobOptions* options_;
  RendezvousClock::time_point begin_ = RendezvousClock::now();
  RendezvousClock::time_point next_notice_;
};

}  // namespace ptdp
