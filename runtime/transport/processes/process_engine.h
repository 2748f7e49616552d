// Moves messages between the processes of a job: what is alike over MPI and over TCP.
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

/// A receive from its call until it is waited for, at a fixed place. Guarded by the engine.
struct ProcessReceive {
  Buffer buffer;
  std::optional<Reduction> reduction;  ///< How the message is combined with the buffer.
  bool is_collective = false;
  int from = 0;                ///< Rank of the group.
  Mailbox* mailbox = nullptr;  ///< None where the place is free.
  bool has_arrived = false;
  Packet packet;

  [[nodiscard]] bool is_begun() const { return mailbox != nullptr; }
};

/// Messages of a group, a kind of traffic and a sender, in order, or receives that wait for them:
/// of the two queues one is empty.
struct Mailbox {
  std::deque<Packet> packets;
  std::deque<ProcessReceive*> receives;
};

/// This process among those of its job.
struct ProcessPlace {
  int rank = 0;
  int size = 1;
  int ranks_on_host = 1;
  int place_on_host = 0;
  std::string host;
  std::string address;  ///< Of this host, by which the others reach it; empty: any.
};

/// Moves packets between the processes of a job. A transport only ever touches memory of the
/// engine's own: a packet is sent from there, received to there, and sorted into mailboxes by its
/// header. So groups need no agreement, a receive may be given up at any time, and messages arrive
/// while any thread of the process waits for any of them.
///
/// All that a transport does happens under one lock, for moments: it need not allow several threads
/// at once. Of the threads that wait one polls, and wakes the others. Where none waits, a thread of
/// the engine's polls for sends that are not done: a message may need its sender to move on.
class ProcessEngine {
 public:
  ProcessEngine() = default;
  ProcessEngine(const ProcessEngine&) = delete;
  ProcessEngine& operator=(const ProcessEngine&) = delete;
  ProcessEngine(ProcessEngine&&) = delete;
  ProcessEngine& operator=(ProcessEngine&&) = delete;
  /// A transport's stops the courier before anything of its own goes.
  virtual ~ProcessEngine() = default;

  /// As JobProcess's.
  [[nodiscard]] virtual std::string transport() const = 0;
  [[nodiscard]] const ProcessPlace& place() const { return place_; }
  [[nodiscard]] PacketPool& pool() { return pool_; }

  // --- worlds: one at a time, in the same order on all processes ---

  [[nodiscard]] std::uint32_t begin_world();
  void end_world() noexcept;
  /// Ends the world on all processes, with this exit status unless another came first. Of any
  /// thread; takes 0.1 s at most.
  void abort(int status) noexcept;
  [[nodiscard]] bool is_aborted() const noexcept { return is_aborted_.load(); }
  [[nodiscard]] int abort_status() const noexcept { return abort_status_.load(); }

  // --- messages ---

  void send(Packet packet, int to);
  [[nodiscard]] Mailbox& mailbox(std::uint64_t group, int from);
  void expect(ProcessReceive& receive, Mailbox& mailbox);
  /// Its place is free then.
  void withdraw(ProcessReceive& receive) noexcept;
  /// Returns once `is_over()`, which is called under the lock and which a message that is sorted or
  /// a send that is done makes true. Throws what throw_if_aborted() does.
  void wait_until(const std::function<bool()>& is_over);
  /// Throws Aborted, or PeerLost where this process is the one to say so.
  void throw_if_aborted() const {
    if (is_aborted()) {
      throw_aborted();
    }
  }

  /// Waits for all processes to come here, ends the transport, and returns `status`, or that of an
  /// abort. After an abort it waits two seconds at most.
  [[nodiscard]] virtual int finish(int status) noexcept = 0;
  /// As JobProcess's.
  [[nodiscard]] std::string loss();
  /// As JobProcess's.
  [[nodiscard]] int awaited_at_end() const noexcept { return awaited_at_end_.load(); }

 protected:
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;

  // --- of a transport, under the lock; they throw Error(kRuntimeFault) where it does not work ---

  /// Takes the packet and returns at once.
  virtual void start_send(Packet packet, int to) = 0;
  /// Moves on what can be moved, and hands what came to sort(). Never waits.
  virtual void progress() = 0;
  [[nodiscard]] virtual bool has_unsent() const = 0;
  /// Sends an abort of this world to others: all of them hear of it in the end.
  virtual void spread_abort(int status) = 0;
  /// How often the courier calls progress() while nobody else does; none: for sends alone.
  [[nodiscard]] virtual std::optional<std::chrono::milliseconds> idle_interval() const {
    return std::nullopt;
  }

  /// First of all, by a transport's constructor.
  void set_place(ProcessPlace place);
  /// Last of all. `name` is the thread's.
  void start_courier(const char* name);
  /// Before finish() and the destructor take the lock.
  void stop_courier() noexcept;
  /// Under the lock.
  void sort(Packet packet, int from);
  /// Rank 0's: this rank comes to finish().
  void note_goodbye(int rank);
  [[nodiscard]] Packet abort_notice(int status, PacketHeader::Kind kind);
  /// A process is gone: this world and all to come are aborted with kRuntimeFault. `why` is what
  /// this process throws, as PeerLost; empty where another one does. Under the lock.
  void lose(const std::string& why);
  [[nodiscard]] bool is_lost() const { return is_lost_.load(); }

  [[nodiscard]] Lock locked() { return Lock(mutex_); }
  /// Makes progress until `is_over()`, and says whether it was before the deadline, or two seconds
  /// after an abort. Under the lock.
  [[nodiscard]] bool progress_until(const std::function<bool()>& is_over,
                                    std::optional<Clock::time_point> deadline = {});

 private:
  [[noreturn]] void throw_aborted() const;
  void poll_until(Lock& lock, int looks, const std::function<bool()>& is_over);
  void deliver_sends();
  void look_while_idle();
  void rouse_courier();
  void tell_of_abort(int status);
  void deliver(Packet packet, Mailbox& mailbox);

  ProcessPlace place_;
  int looks_ = 0;  ///< Of a wait, before it sleeps.
  PacketPool pool_;

  std::mutex mutex_;  ///< For everything below but atomics, and for all that a transport has.
  std::condition_variable changed_;
  bool is_polled_ = false;       ///< A thread polls.
  std::uint64_t num_waits_ = 0;  ///< Begun so far: the one that polls hurries for a new one.
  int num_followers_ = 0;        ///< Threads that wait for the one that polls.
  bool has_news_ = false;        ///< Something was sorted, or is done, since they were woken.
  bool is_finishing_ = false;
  std::condition_variable courier_work_;
  bool is_courier_awake_ = false;
  std::uint32_t world_ = 0;
  std::map<std::uint32_t, int> aborts_;  ///< Of worlds to come: exit statuses.
  std::atomic<bool> is_aborted_ = false;
  std::atomic<int> abort_status_ = 0;
  /// Whether the courier is to tell the others of an abort.
  enum class Telling : std::uint8_t { kNone, kAsked, kDone };
  std::atomic<Telling> telling_ = Telling::kNone;
  std::set<int> goodbyes_;  ///< Ranks that come to finish(), of rank 0.
  std::atomic<int> awaited_at_end_ = 0;
  std::atomic<bool> is_lost_ = false;  ///< For good; `lost_` stays as it is from then on.
  std::string lost_;
  std::map<std::pair<std::uint64_t, int>, Mailbox> mailboxes_;
  /// Of worlds to come.
  std::deque<std::pair<int, Packet>> early_;
  std::thread courier_;  ///< Runs deliver_sends().
};

}  // namespace ptdp
