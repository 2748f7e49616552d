// One thread's end of a group of threads.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "runtime/transport/link_backend.h"
#include "runtime/transport/message_communicator.h"
#include "runtime/transport/request_table.h"
#include "runtime/transport/threads/thread_group.h"

namespace ptdp {

/// One thread's end of a group of threads, made by ThreadWorld. A message is copied into the buffer
/// of a receiver that waits for it, or else into a copy that is kept. What a collective sends stays
/// in place until its receiver takes it from there, unless it is small.
///
/// Nobody touches the buffers of a rank outside collectives and waits for receives, so a thread may
/// throw at any time. On a device, buffers are ready, and may be touched again, only for the lane
/// of the calling thread.
class ThreadCommunicator final : public MessageCommunicator {
 public:
  /// `group` belongs to `world`; `rank` is this thread's rank in it. `backend` must outlive the
  /// communicator.
  ThreadCommunicator(std::shared_ptr<ThreadWorldState> world, ThreadGroup& group, int rank,
                     Backend& backend);
  ThreadCommunicator(const ThreadCommunicator&) = delete;
  ThreadCommunicator& operator=(const ThreadCommunicator&) = delete;
  ThreadCommunicator(ThreadCommunicator&&) = delete;
  ThreadCommunicator& operator=(ThreadCommunicator&&) = delete;
  ~ThreadCommunicator() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return group_->size(); }
  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override;
  void abort(ExitStatus status) noexcept override;

 protected:
  [[nodiscard]] Request start_send(Buffer buffer, int to, Traffic traffic) override;
  [[nodiscard]] Request start_receive(Buffer buffer, int from, Traffic traffic,
                                      std::optional<Reduction> reduction) override;
  void wait_all(std::span<const Request> requests) override;
  void withdraw_collectives() noexcept override;

 private:
  /// Throws Aborted when the world is aborted.
  void throw_if_aborted() const;
  /// Returns the link of this group from rank `from` to rank `to` for one kind of traffic.
  [[nodiscard]] ThreadLink& link(int from, int to, Traffic traffic) const;
  /// Waits for those of `requests` that are offers, or for those that are receives. Throws Aborted
  /// when the world is aborted meanwhile.
  void finish(std::span<const Request> requests, bool are_offers);

  std::shared_ptr<ThreadWorldState> world_;
  ThreadGroup* group_;
  int rank_;
  LinkBackend lanes_;
  RequestTable<Transfer> transfers_;
};

}  // namespace ptdp
