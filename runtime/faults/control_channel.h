// Connections by which the processes of a run tell each other that one of them failed, died or is
// stopped.
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

/// Settings of a process's control channel.
struct ControlOptions {
  int first_rank = 0;  ///< First rank of this process. The process with rank 0 is the hub.
  int num_ranks = 1;   ///< Number of ranks of this process.
  int world_size = 1;  ///< Number of ranks of all processes.
  Seconds connect_timeout{30.0};  ///< Time within which all processes must join.
  /// Silence of a process after which it counts as stopped.
  Seconds longest_silence{10.0};
  /// Returns what the ranks of this process are in. The channel's thread calls it.
  std::function<std::vector<RankActivity>()> activities;
};

/// Parses the table with the hub alone, as to_text() wrote it. Throws Error(kRuntimeFault) for
/// other text.
[[nodiscard]] TcpTable parse_hub_table(const std::string& text);

/// The listening socket of rank 0's process, open from construction on. Its table must then be
/// spread by other means that the processes share.
class ControlHub {
 public:
  /// Listens at this address of this host; an empty address means all. Throws Error(kRuntimeFault).
  explicit ControlHub(const std::string& address = {});
  /// Returns the table that tells other processes where to connect.
  [[nodiscard]] const TcpTable& table() const { return table_; }

 private:
  friend class ControlChannel;
  Listening listening_;
  TcpTable table_;
};

/// A connection of every process to the hub's, with a thread of its own. Both sides send what their
/// ranks are in ten times a second. A connection that ends without a goodbye means a process that
/// died; silence means one that is stopped. The hub tells all processes of the first fault.
class ControlChannel {
 public:
  /// Makes the channel of the hub's process.
  ControlChannel(ControlOptions options, ControlHub hub);
  /// Makes the channel of another process. Throws Error(kRuntimeFault), with the addresses tried,
  /// when none answers.
  ControlChannel(ControlOptions options, const TcpTable& hub);
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;
  ControlChannel(ControlChannel&&) = delete;
  ControlChannel& operator=(ControlChannel&&) = delete;
  /// Says goodbye, unless there was a fault.
  ~ControlChannel();

  /// Tells all other processes of a fault, unless one of them told of a fault before. Any thread
  /// may call it.
  void spread(const RunFault& fault);
  /// Returns the first fault of another process; nullopt without one. Any thread may call it.
  [[nodiscard]] std::optional<RunFault> fault() const;
  /// Returns what the ranks of other processes are in, as last heard, on this host's clock. On the
  /// hub these are all other ranks; elsewhere, the hub's ranks. Any thread may call it.
  [[nodiscard]] std::vector<RankActivity> activities() const;

 private:
  /// The connection to another process.
  struct Peer {
    Peer(Descriptor socket, PacketPool& pool) : connection(std::move(socket), pool) {}

    TcpConnection connection;
    int first_rank = -1;  ///< First rank of the process; −1 until it greeted.
    std::string who;      ///< Name of the process in messages, as "process 123 on host".
    /// Time [ns] at which the process was last heard.
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
  /// Connections to other processes. Only the channel's thread uses them.
  std::vector<std::unique_ptr<Peer>> peers_;
  std::set<int> joined_ = {0};  ///< First ranks of all processes that ever joined.
  std::int64_t started_ = 0;
  std::int64_t last_look_ = 0;
  std::int64_t last_beat_ = 0;

  mutable std::mutex mutex_;
  std::optional<RunFault> to_spread_;
  std::optional<RunFault> fault_;  ///< First fault of another process.
  std::vector<RankActivity> activities_;
  /// Whether there was a fault, here or elsewhere. A process that goes then was told to.
  bool has_failed_ = false;

  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

}  // namespace ptdp
