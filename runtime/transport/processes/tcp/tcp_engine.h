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

/// Over TCP: rank 0 keeps the connections of the meeting, which carry what it and the others send
/// each other; others reach each other by a TcpRoute, made on its first use. A connection of the
/// meeting that ends without a goodbye is a process that died: rank 0 notices, tells all, and is
/// the one to say so; of rank 0's end all others tell. Aborts go through rank 0, too.
///
/// While nobody waits, the engine's thread looks after messages ten times a second, so that a
/// process that computes hears of an abort and others of a death.
class TcpEngine final : public ProcessEngine {
 public:
  /// Throws as join_tcp_job() does.
  explicit TcpEngine(const TcpJobOptions& options);
  TcpEngine(const TcpEngine&) = delete;
  TcpEngine& operator=(const TcpEngine&) = delete;
  TcpEngine(TcpEngine&&) = delete;
  TcpEngine& operator=(TcpEngine&&) = delete;
  ~TcpEngine() override;

  [[nodiscard]] std::string transport() const override { return "tcp"; }
  /// After an abort it returns two seconds later at most, whoever came.
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
  /// A connection that something may come from.
  struct Inlet {
    TcpConnection connection;
    int rank = -1;  ///< −1 until the process at the other end is known.
    bool is_of_meeting = false;
    bool said_goodbye = false;
    Clock::time_point since = Clock::now();
  };

  void watch(int descriptor, void* what) const;
  void accept_all();
  void drop_silent_strangers();
  void read_from(Inlet& inlet);
  void take(Inlet& inlet, Packet packet);
  void greet(Inlet& inlet, const std::string& text);
  void note_end(Inlet& inlet);
  void tell_all_but(int rank, int status, PacketHeader::Kind kind);
  void report_loss(const std::string& why);
  void say_goodbye(Inlet& inlet);
  void leave();
  [[nodiscard]] TcpRoute& route_to(int rank);
  [[nodiscard]] std::string described(int rank) const;

  Rendezvous rendezvous_;
  Clock::time_point complete_since_;
  Descriptor events_;  ///< An epoll of the listening socket and of all inlets.
  std::vector<std::unique_ptr<Inlet>> inlets_;
  std::map<int, Inlet*> of_meeting_;  ///< By rank.
  std::map<int, TcpRoute> routes_;    ///< By rank.
  std::set<TcpRoute*> busy_routes_;   ///< With something unsent.
  std::set<Inlet*> busy_inlets_;
  int num_strangers_ = 0;
  bool is_leaving_ = false;
};

}  // namespace ptdp
