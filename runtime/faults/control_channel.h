// How the processes of a run tell each other that one of them failed, died or is stopped.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/faults/watchdog.h"
#include "runtime/transport/processes/tcp/tcp_connection.h"
#include "runtime/transport/processes/tcp/tcp_hello.h"

namespace ptdp {

struct ControlOptions {
  int first_rank = 0;             ///< Of this process; the one with rank 0 is the hub.
  int num_ranks = 1;              ///< Of this process,
  int world_size = 1;             ///< and of all.
  Seconds connect_timeout{30.0};  ///< For all processes to join.
  /// A process from which nothing is heard for so long has stopped.
  Seconds longest_silence{10.0};
  /// What the ranks of this process are in; called by the channel's thread.
  std::function<std::vector<RankActivity>()> activities;
};

/// The table of the hub alone, as to_text() wrote it. Throws Error(kRuntimeFault) for another text.
[[nodiscard]] TcpTable parse_hub_table(const std::string& text);

/// Listens from its construction on; its table is then spread by what the processes share.
class ControlHub {
 public:
  /// Listens at this address of this host; empty: at all. Throws Error(kRuntimeFault).
  explicit ControlHub(const std::string& address = {});
  [[nodiscard]] const TcpTable& table() const { return table_; }

 private:
  friend class ControlChannel;
  Listening listening_;
  TcpTable table_;
};

/// Every process keeps a connection to the hub's, and both send what their ranks are in ten times a
/// second. A connection that ends without a goodbye is a process that died; silence is one that is
/// stopped. The hub tells all of the first fault. One thread.
class ControlChannel {
 public:
  /// The hub's.
  ControlChannel(ControlOptions options, ControlHub hub);
  /// Any other's. Throws Error(kRuntimeFault), with the addresses, where none answers.
  ControlChannel(ControlOptions options, const TcpTable& hub);
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;
  ControlChannel(ControlChannel&&) = delete;
  ControlChannel& operator=(ControlChannel&&) = delete;
  /// Says goodbye, unless there was a fault.
  ~ControlChannel();

  /// Tells all others, unless one of them told of a fault before. Of any thread.
  void spread(const RunFault& fault);
  /// The first fault of another process. Of any thread.
  [[nodiscard]] std::optional<RunFault> fault() const;
  /// What the ranks of the others are in, as last heard, on this host's clock: all on the hub, the
  /// hub's elsewhere. Of any thread.
  [[nodiscard]] std::vector<RankActivity> activities() const;

 private:
  /// Another process.
  struct Peer {
    Peer(Descriptor socket, PacketPool& pool) : connection(std::move(socket), pool) {}

    TcpConnection connection;
    int first_rank = -1;  ///< −1 until it greeted.
    std::string who;      ///< "process 123 on host".
    std::int64_t heard = 0;
    bool said_goodbye = false;
    std::vector<RankActivity> activities;
  };

  [[nodiscard]] bool is_hub() const { return options_.first_rank == 0; }
  void run();
  void exchange();
  void say_goodbye();
  void wait_for_input();
  void greet(Peer& peer);
  void look_at(Peer& peer, std::int64_t now);
  void take(Peer& peer, const std::string& text, std::int64_t now);
  void blame(const Peer& peer, const std::string& what);
  void note_fault(const RunFault& fault, const Peer* from);
  void tell_all(const std::string& text, bool may_be_lost, const Peer* but);
  void look_for_missing(std::int64_t now);

  ControlOptions options_;
  std::optional<ControlHub> hub_;
  std::string secret_;
  PacketPool pool_;
  std::vector<std::unique_ptr<Peer>> peers_;  ///< Of the thread alone.
  std::set<int> joined_ = {0};                ///< First ranks of processes that ever came.
  std::int64_t started_ = 0;
  std::int64_t last_look_ = 0;
  std::int64_t last_beat_ = 0;

  mutable std::mutex mutex_;
  std::optional<RunFault> to_spread_;
  std::optional<RunFault> fault_;  ///< Of others.
  std::vector<RankActivity> activities_;
  bool has_failed_ = false;  ///< Here or elsewhere: whoever goes now was told to.

  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

}  // namespace ptdp
