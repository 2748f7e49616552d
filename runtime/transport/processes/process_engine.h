// Moves messages between the processes of a job: the part that MPI and TCP share.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "runtime/transport/communicator.h"
#include "runtime/transport/processes/process_packet.h"

namespace ptdp {

struct Mailbox;

/// A receive, from the call that begins it until it is waited for. It does not move in memory. The
/// lock of the engine guards it.
struct ProcessReceive {
  Buffer buffer;
  std::optional<Reduction> reduction;  ///< How the message is combined with the buffer, if at all.
  bool is_collective = false;          ///< Begun by a collective.
  int from = 0;                        ///< The sender's rank in the group.
  Mailbox* mailbox = nullptr;  ///< The mailbox that it waits in; null when the place is free.
  bool has_arrived = false;    ///< The message is in `packet`.
  Packet packet;

  [[nodiscard]] bool is_begun() const { return mailbox != nullptr; }
};

/// The queue of messages from one sender, for one group and one kind of traffic. At most one of the
/// two queues has entries: messages, or receives that wait for them.
struct Mailbox {
  std::deque<Packet> packets;
  std::deque<ProcessReceive*> receives;
};

/// The place of this process among those of its job.
struct ProcessPlace {
  int rank = 0;           ///< Rank in the job.
  int size = 1;           ///< Number of processes in the job.
  int ranks_on_host = 1;  ///< Number of processes on this host.
  int place_on_host = 0;  ///< Place among the processes on this host, from 0.
  std::string host;       ///< Name of this host.
  /// Address by which others reach this host; empty for any of its addresses.
  std::string address;
};

/// Moves packets between the processes of a job. A transport only touches memory of the engine: it
/// sends packets from there, receives them there, and sorts them into mailboxes by their headers.
/// So groups need no agreement, and a receive may be given up at any time. A message may arrive
/// while any thread of the process waits for any message.
///
/// The transport runs under one lock, for moments at a time, so it need not support several threads
/// at once. One of the waiting threads polls and wakes the others. When no thread waits, the
/// engine's courier thread polls for unfinished sends, since a message may need its sender to move
/// on.
class ProcessEngine {
 public:
  ProcessEngine() = default;
  ProcessEngine(const ProcessEngine&) = delete;
  ProcessEngine& operator=(const ProcessEngine&) = delete;
  ProcessEngine(ProcessEngine&&) = delete;
  ProcessEngine& operator=(ProcessEngine&&) = delete;
  /// The destructor of a derived transport stops the courier before its own members go.
  virtual ~ProcessEngine() = default;

  /// Returns how messages travel: "mpi" or "tcp".
  [[nodiscard]] virtual std::string transport() const = 0;
  /// Returns the place of this process in the job.
  [[nodiscard]] const ProcessPlace& place() const { return place_; }
  /// Returns the memory from which packets are taken.
  [[nodiscard]] PacketPool& pool() { return pool_; }

  // Worlds exist one at a time, in the same order on all processes.

  /// Begins the next world and returns its number, from 1. Delivers the messages that arrived early
  /// for it.
  [[nodiscard]] std::uint32_t begin_world();
  /// Ends the current world and drops its mailboxes.
  void end_world() noexcept;
  /// Ends the world on all processes, with exit status `status` unless another abort came first.
  /// Any thread may call it; it takes at most 0.1 s.
  void abort(int status) noexcept;
  /// Returns whether the current world is aborted.
  [[nodiscard]] bool is_aborted() const noexcept { return is_aborted_.load(); }
  /// Returns the exit status of the first abort of the current world, or 0.
  [[nodiscard]] int abort_status() const noexcept { return abort_status_.load(); }

  // Messages.

  /// Sends `packet` to process `to` without waiting for it. Throws as throw_if_aborted() does.
  void send(Packet packet, int to);
  /// Returns the mailbox for messages of channel `group` from process `from`.
  [[nodiscard]] Mailbox& mailbox(std::uint64_t group, int from);
  /// Begins `receive` in `mailbox`. Throws as throw_if_aborted() does.
  void expect(ProcessReceive& receive, Mailbox& mailbox);
  /// Gives up `receive`, whose place is free afterwards.
  void withdraw(ProcessReceive& receive) noexcept;
  /// Returns once `is_over()` is true. It is called under the lock; a message that is sorted or a
  /// send that is done can make it true. Throws as throw_if_aborted() does.
  void wait_until(const std::function<bool()>& is_over);
  /// Throws when the world is aborted: PeerLost if this process is the one to report a loss,
  /// Aborted otherwise.
  void throw_if_aborted() const {
    if (is_aborted()) {
      throw_aborted();
    }
  }

  /// Waits for all processes to come here, ends the transport, and returns `status`, or the status
  /// of an abort. After an abort it waits at most two seconds for the others.
  [[nodiscard]] virtual int finish(int status) noexcept = 0;
  /// Returns the message of the PeerLost that this process would throw or threw; empty when there
  /// is none.
  [[nodiscard]] std::string loss();
  /// Returns the rank that finish() waits for first. On rank 0 that is a rank that has not come; on
  /// other ranks it is rank 0. Any thread may call it.
  [[nodiscard]] int awaited_at_end() const noexcept { return awaited_at_end_.load(); }

 protected:
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;

  // A transport implements these. They run under the lock, and throw Error(kRuntimeFault) when the
  // transport fails.

  /// Takes `packet` to send it to process `to`, and returns at once.
  virtual void start_send(Packet packet, int to) = 0;
  /// Moves all transfers on as far as possible and hands arrived packets to sort(). Never waits.
  virtual void progress() = 0;
  /// Returns whether sends are unfinished.
  [[nodiscard]] virtual bool has_unsent() const = 0;
  /// Sends an abort of this world to other processes, so that all of them learn of it in the end.
  virtual void spread_abort(int status) = 0;
  /// Returns how often the courier calls progress() while nobody else does. With nullopt it only
  /// does so for unfinished sends.
  [[nodiscard]] virtual std::optional<std::chrono::milliseconds> idle_interval() const {
    return std::nullopt;
  }

  /// Sets the place of this process. A transport's constructor calls it before any
  /// other function of the engine.
  void set_place(ProcessPlace place);
  /// Starts the courier thread, named `name`. A transport's constructor calls it last.
  void start_courier(const char* name);
  /// Stops the courier. finish() and the destructor call it before they take the lock.
  void stop_courier() noexcept;
  /// Handles `packet` from process `from` by its header: delivers it, keeps it for a later world,
  /// or notes an abort, loss or goodbye. Called under the lock.
  void sort(Packet packet, int from);
  /// Notes that process `rank` came to finish(). Only rank 0 uses these notes.
  void note_goodbye(int rank);
  /// Returns a packet that ends the current world with `status`; `kind` is kAbort or kLost.
  [[nodiscard]] Packet abort_notice(int status, PacketHeader::Kind kind);
  /// Notes that a process is gone, which aborts this world and all later ones with kRuntimeFault.
  /// `why` is the message of the PeerLost that this process throws, or empty when another process
  /// throws it. Called under the lock.
  void lose(const std::string& why);
  /// Returns whether a process is known to be gone.
  [[nodiscard]] bool is_lost() const { return is_lost_.load(); }

  /// Locks the engine and returns the lock.
  [[nodiscard]] Lock locked() { return Lock(mutex_); }
  /// Makes progress until `is_over()`. Returns whether it was true before the deadline, which is
  /// two seconds after an abort if not given. Called under the lock.
  [[nodiscard]] bool progress_until(const std::function<bool()>& is_over,
                                    std::optional<Clock::time_point> deadline = {});

 private:
  /// Throws PeerLost if this process is the one to report a loss, Aborted otherwise.
  [[noreturn]] void throw_aborted() const;
  /// Polls until `is_over()` or the world is aborted, looking `looks` times before it sleeps.
  void poll_until(Lock& lock, int looks, const std::function<bool()>& is_over);
  /// The courier thread's work: finishes sends and tells of aborts until the engine is finished.
  void deliver_sends();
  /// Makes progress once, unless another thread polls.
  void look_while_idle();
  /// Wakes the courier if sends are unfinished and no thread polls.
  void rouse_courier();
  /// Sends an abort with `status` to other processes, and gives it 50 ms to leave.
  void tell_of_abort(int status);
  /// Gives `packet` to the first receive in `mailbox`, or queues it there.
  void deliver(Packet packet, Mailbox& mailbox);

  ProcessPlace place_;
  int looks_ = 0;  ///< How often a wait looks before it sleeps.
  PacketPool pool_;

  /// Guards all members below except atomics, and all members of a derived transport.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_polled_ = false;  ///< Whether a thread polls.
  /// Waits begun so far; the polling thread looks faster after each one.
  std::uint64_t num_waits_ = 0;
  int num_followers_ = 0;  ///< Threads that wait for the one that polls.
  /// Whether a receive got its message since the followers were woken.
  bool has_news_ = false;
  bool is_finishing_ = false;  ///< Whether the courier is to stop.
  std::condition_variable courier_work_;
  bool is_courier_awake_ = false;        ///< Whether the courier was woken for unfinished sends.
  std::uint32_t world_ = 0;              ///< Number of the current world; 0 before the first.
  std::map<std::uint32_t, int> aborts_;  ///< Exit statuses of aborts of later worlds, by world.
  std::atomic<bool> is_aborted_ = false;
  std::atomic<int> abort_status_ = 0;
  /// Whether the courier still has to tell other processes of an abort.
  enum class Telling : std::uint8_t { kNone, kAsked, kDone };
  std::atomic<Telling> telling_ = Telling::kNone;
  std::set<int> goodbyes_;  ///< Ranks that came to finish(); used on rank 0.
  std::atomic<int> awaited_at_end_ = 0;
  /// Whether a process is gone. It never becomes false again, and `lost_` does not change after it.
  std::atomic<bool> is_lost_ = false;
  std::string lost_;  ///< Message of the PeerLost that this process throws.
  /// Mailboxes by channel and sender.
  std::map<std::pair<std::uint64_t, int>, Mailbox> mailboxes_;
  /// Packets for later worlds, with their senders.
  std::deque<std::pair<int, Packet>> early_;
  std::thread courier_;  ///< The courier thread, which runs deliver_sends().
};

}  // namespace ptdp
