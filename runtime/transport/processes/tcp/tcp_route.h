// The way of packets to another process, which is made when the first is sent.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "runtime/transport/processes/tcp/tcp_connection.h"
#include "runtime/transport/processes/tcp/tcp_hello.h"

namespace ptdp {

/// One direction of a pair of processes: a connection of its own, so that nobody waits for the
/// other to make it. Never blocks.
class TcpRoute {
 public:
  /// Tries `addresses` in turn, for half a minute, until a process answers with a greeting back.
  TcpRoute(std::vector<std::string> addresses, std::uint16_t port, TcpGreeting greeting,
           PacketPool& pool);

  void send(Packet packet);
  /// Moves on what can be moved.
  void progress();
  [[nodiscard]] bool has_unsent() const {
    return !waiting_.empty() || (connection_ && connection_->has_unsent());
  }
  /// Why the other process cannot be reached; empty unless so.
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  using Clock = std::chrono::steady_clock;

  void try_next();
  void look_at_attempt();
  void give_up_attempt(const std::string& why);

  std::vector<std::string> addresses_;
  std::uint16_t port_;
  TcpGreeting greeting_;
  PacketPool* pool_;
  std::deque<Packet> waiting_;  ///< Until the other process answered.

  std::size_t next_ = 0;  ///< Of the addresses.
  std::optional<PendingConnection> pending_;
  std::optional<TcpConnection> connection_;
  bool is_open_ = false;  ///< The other process answered.
  Clock::time_point began_ = Clock::now();
  Clock::time_point attempt_ends_;
  Clock::time_point next_attempt_;
  std::string answers_;  ///< Of the last round of attempts.
  std::string fault_;
};

}  // namespace ptdp
