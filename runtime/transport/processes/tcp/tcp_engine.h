// Moves messages between the processes of a job over TCP.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/transport/processes/process_engine.h"
#include "runtime/transport/processes/tcp/tcp_rendezvous.h"
#include "runtime/transport/processes/tcp/tcp_route.h"

namespace ptdp {

/// An engine that moves packets over TCP. Rank 0 keeps the connections of the meeting, which carry
/// its packets to and from the other ranks. Other ranks reach each other by a TcpRoute, made on its
/// first use.
///
/// A connection of the meeting that ends without a goodbye is a process that died. Rank 0 notices
/// it, tells all, and throws PeerLost. When rank 0 ends, every other process reports it. Aborts
/// also go through rank 0.
///
/// While no thread waits, the courier looks for messages ten times a second. So a process that
/// computes learns of an abort, and the others learn of a death.
class TcpEngine final : public ProcessEngine {
 public:
  /// Meets the other processes. Throws as join_tcp_job() does.
  explicit TcpEngine(const TcpJobOptions& options);
  TcpEngine(const TcpEngine&) = delete;
  TcpEngine& operator=(const TcpEngine&) = delete;
  TcpEngine(TcpEngine&&) = delete;
  TcpEngine& operator=(TcpEngine&&) = delete;
  ~TcpEngine() override;

  [[nodiscard]] std::string transport() const override { return "tcp"; }
  /// Waits for all processes, closes all connections and returns `status`, or the status of an
  /// abort. After an abort each of its waits ends within two seconds, even when processes have not
  /// come.
  [[nodiscard]] int finish(int status) noexcept override;

 protected:
  void start_send(Packet packet, int to) override;
  void progress() override;
  [[nodiscard]] bool has_unsent() const override;
  void spread_abort(int status) override;
  [[nodiscard]] std::optional<std::chrono::milliseconds> idle_interval() const override {
    return std::chrono::milliseconds(100);
  }

 private:
  /// A connection on which packets may arrive.
  struct Inlet {
    TcpConnection connection;
    int rank = -1;               ///< Rank of the process at the other end; −1 until it is known.
    bool is_of_meeting = false;  ///< Made in the meeting.
    bool said_goodbye = false;   ///< The other process came to finish().
    Clock::time_point since = Clock::now();  ///< When the connection was accepted.
  };

  /// Watches `descriptor` for arrivals; `what` is its Inlet, or null for the listening socket.
  void watch(int descriptor, void* what) const;
  /// Accepts all waiting connections.
  void accept_all();
  /// Closes connections of callers that have not said who they are within ten seconds.
  void drop_silent_strangers();
  /// Receives packets, at most about 4 MiB per call, so that other connections get their turn.
  void read_from(Inlet& inlet);
  /// Handles one packet that arrived.
  void take(Inlet& inlet, Packet packet);
  /// Handles the first text of a caller: answers a greeting, and refuses anything else.
  void greet(Inlet& inlet, const std::string& text);
  /// Handles a connection that the other side closed.
  void note_end(Inlet& inlet);
  /// Sends an abort or a loss along all connections of the meeting, except to `rank`.
  void tell_all_but(int rank, int status, PacketHeader::Kind kind);
  /// Reports a loss in this process and tells the other processes.
  void report_loss(const std::string& why);
  /// Tells the process at the other end that this one came to finish().
  void say_goodbye(Inlet& inlet);
  /// Waits at the end of the job until the connections may be closed.
  void leave();
  /// Returns the route to process `rank`, and makes it at its first use.
  [[nodiscard]] TcpRoute& route_to(int rank);
  /// Returns a process in words: "rank 1 on host node7".
  [[nodiscard]] std::string described(int rank) const;

  Rendezvous rendezvous_;
  Clock::time_point complete_since_;  ///< When the meeting was complete.
  Descriptor events_;                 ///< An epoll of the listening socket and of all inlets.
  std::vector<std::unique_ptr<Inlet>> inlets_;
  std::map<int, Inlet*> of_meeting_;  ///< Connections of the meeting, by rank.
  std::map<int, TcpRoute> routes_;    ///< Routes by rank.
  std::set<TcpRoute*> busy_routes_;   ///< Routes with unsent packets or an unreported fault.
  std::set<Inlet*> busy_inlets_;      ///< Connections of the meeting with unsent packets.
  int num_strangers_ = 0;             ///< Connections of callers that have not said who they are.
  bool is_leaving_ = false;           ///< finish() is past its goodbyes.
};

}  // namespace ptdp
