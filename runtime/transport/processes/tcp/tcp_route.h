// A route for packets to another process, made when the first packet is sent.
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

/// One direction between a pair of processes. It has a connection of its own, so that neither
/// process waits for the other to make it. It never blocks.
class TcpRoute {
 public:
  /// Tries `addresses` in turn, for half a minute, until a process answers with the matching
  /// greeting.
  TcpRoute(std::vector<std::string> addresses, std::uint16_t port, TcpGreeting greeting,
           PacketPool& pool);

  /// Sends `packet`, or keeps it until the other process has answered. Drops it after a fault.
  void send(Packet packet);
  /// Moves connecting and sending on as far as possible.
  void progress();
  [[nodiscard]] bool has_unsent() const {
    return !waiting_.empty() || (connection_ && connection_->has_unsent());
  }
  /// Returns why the other process cannot be reached, or "" while it may be reached.
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  using Clock = std::chrono::steady_clock;

  /// Begins to connect to the next address, unless a pause is due. Sets the fault when time is
  /// over.
  void try_next();
  /// Looks whether the attempt connected and the other process answered.
  void look_at_attempt();
  /// Ends the attempt with `why`, and moves on to the next address.
  void give_up_attempt(const std::string& why);

  std::vector<std::string> addresses_;
  std::uint16_t port_;
  TcpGreeting greeting_;
  PacketPool* pool_;
  std::deque<Packet> waiting_;  ///< Packets that wait until the other process has answered.

  std::size_t next_ = 0;  ///< Index of the next address to try.
  std::optional<PendingConnection> pending_;
  std::optional<TcpConnection> connection_;
  bool is_open_ = false;  ///< The other process has answered.
  Clock::time_point began_ = Clock::now();
  Clock::time_point attempt_ends_;
  Clock::time_point next_attempt_;
  std::string answers_;  ///< Why the attempts of the current round failed.
  std::string fault_;
};

}  // namespace ptdp
