// The end of one thread of a group of threads.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "runtime/transport/link_backend.h"
#include "runtime/transport/message_communicator.h"
#include "runtime/transport/request_table.h"
#include "runtime/transport/threads/thread_group.h"

namespace ptdp {

/// Made by ThreadWorld. Messages are copied into the buffer of a receiver that waits for them, else
/// kept; what a collective sends stays where it is until its receiver takes it from there, unless
/// it is small. Nobody touches a buffer of a rank that is neither in a collective nor waits for a
/// receive, so that a thread may throw at any time. On a device the buffers are ready, and may be
/// touched again, as seen by the lane of the thread that makes the call.
class ThreadCommunicator final : public MessageCommunicator {
 public:
  /// `group` is one of the world's.
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
  void throw_if_aborted() const;
  [[nodiscard]] ThreadLink& link(int from, int to, Traffic traffic) const;
  /// Waits for the receives, or the offers, among `requests`.
  void finish(std::span<const Request> requests, bool are_offers);

  std::shared_ptr<ThreadWorldState> world_;
  ThreadGroup* group_;
  int rank_;
  LinkBackend lanes_;
  RequestTable<Transfer> transfers_;
};

}  // namespace ptdp
