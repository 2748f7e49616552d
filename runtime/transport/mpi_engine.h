// All that this process does with MPI.
#pragma once

#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/transport/communicator.h"
#include "runtime/transport/mpi_packet.h"

namespace ptdp {

struct Mailbox;

/// A receive from its call until it is waited for, at a fixed place. Guarded by the engine.
struct MpiReceive {
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
  std::deque<MpiReceive*> receives;
};

/// Moves packets between the processes of a job. MPI only ever touches memory of the engine's own:
/// a packet is sent from there, received to there, and sorted into mailboxes by its header. So
/// groups need no agreement, a receive may be given up at any time, and messages arrive while any
/// thread of the process waits for any of them.
///
/// All calls of MPI happen under one lock, for moments: the library need not allow several threads
/// at once. Of the threads that wait one polls, and wakes the others. Where none waits, a thread of
/// the engine's polls for sends that are not done: a message may need its sender to move on.
class MpiEngine {
 public:
  /// Initialises MPI: once per process. Throws Error(kRuntimeFault).
  MpiEngine();
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;
  MpiEngine(MpiEngine&&) = delete;
  MpiEngine& operator=(MpiEngine&&) = delete;
  ~MpiEngine();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] int ranks_on_host() const { return ranks_on_host_; }
  [[nodiscard]] int place_on_host() const { return place_on_host_; }
  [[nodiscard]] const std::string& host() const { return host_; }
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
  void expect(MpiReceive& receive, Mailbox& mailbox);
  /// Its place is free then.
  void withdraw(MpiReceive& receive) noexcept;
  /// Returns once `is_over()`, which is called under the lock and which a message that is sorted or
  /// a send that is done makes true. Throws Aborted.
  void wait_until(const std::function<bool()>& is_over);
  void throw_if_aborted() const {
    if (is_aborted()) {
      throw Aborted();
    }
  }

  /// Waits for all processes to come here, ends MPI, and returns `status`, or that of an abort.
  /// After an abort, where one does not come within two seconds, MPI_Abort ends the job with the
  /// status and this does not return.
  [[nodiscard]] int finish(int status) noexcept;

 private:
  struct Arrival {
    int from = 0;
    int tag = 0;
    Packet packet;
    MPI_Request request = MPI_REQUEST_NULL;
    bool is_complete = false;
  };

  using Lock = std::unique_lock<std::mutex>;

  void poll_until(Lock& lock, int looks, const std::function<bool()>& is_over);
  void deliver_sends();
  void rouse_courier();
  void stop_courier() noexcept;
  void progress();
  void accept(MPI_Message message, const MPI_Status& status);
  void complete_arrivals();
  void sort(Packet packet, int from);
  void deliver(Packet packet, Mailbox& mailbox);
  void complete_sends();
  void start_send(Packet packet, int to, int tag);
  void tell_of_abort(int status);
  [[nodiscard]] bool all_came();

  MPI_Comm all_ = MPI_COMM_NULL;
  MPI_Datatype block_ = MPI_DATATYPE_NULL;
  int rank_ = 0;
  int size_ = 1;
  int ranks_on_host_ = 1;
  int place_on_host_ = 0;
  int looks_ = 0;  ///< Of a wait, before it sleeps.
  std::string host_;
  PacketPool pool_;

  std::mutex mutex_;  ///< For everything below, and every call of MPI.
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
  std::map<std::pair<std::uint64_t, int>, Mailbox> mailboxes_;
  /// Of worlds to come.
  std::deque<std::pair<int, Packet>> early_;
  std::deque<Arrival> arrivals_;
  std::vector<MPI_Request> send_requests_;
  std::vector<Packet> sent_packets_;  ///< Beside them.
  std::vector<int> done_;
  std::thread courier_;  ///< Runs deliver_sends(); joined by finish().
};

}  // namespace ptdp
