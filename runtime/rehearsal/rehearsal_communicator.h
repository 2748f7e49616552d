// What a rank that rehearses alone hears of the others: values like theirs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "kernels/backend.h"
#include "runtime/rehearsal/memory_of_others.h"
#include "runtime/transport/forwarding_communicator.h"

namespace ptdp {

/// An end over SoloCommunicator: messages are free and counted. So that a rank computes on values
/// as a training has them, without NaN and denormal numbers:
///
///   received messages   normal variates: of deviation 1 forward, as activations, 0.001 backward,
///                       as gradients of a scaled loss. They are there once they are waited for,
///                       which is in no action's time: others compute then;
///   all-gathers of the  this rank's part in the place of every other one: part of the collective,
///   tensor group, and   which TimedCommunicator sees apart from compute;
///   of sharded weights
///   all others          as SoloCommunicator leaves them: partial sums, and parameters that every
///                       rank began with.
class RehearsalCommunicator final : public ForwardingCommunicator {
 public:
  /// The world of a rank. `backend` fills buffers; `others` is used whenever a message is waited
  /// for. Both must outlive it.
  RehearsalCommunicator(Backend& backend, MemoryOfOthers& others, int rank, int size);

  /// `tag` is a GroupTag of process_groups.h, which says what the group is for.
  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override;
  [[nodiscard]] Request receive(Buffer buffer, int from) override;
  void wait(Request request) override;
  void all_gather(Buffer whole) override;
  [[nodiscard]] Request begin_all_gather(Buffer whole) override;
  /// As with NCCL where the backend is a device's: one thread asks for the work of all lanes.
  [[nodiscard]] bool is_queued() const override { return backend_.native_lane() != nullptr; }

 private:
  RehearsalCommunicator(Backend& backend, MemoryOfOthers& others,
                        std::unique_ptr<Communicator> inner, int tag);

  Backend& backend_;
  MemoryOfOthers& others_;
  int tag_;
  std::uint64_t last_request_ = 0;
  std::map<std::uint64_t, Buffer> expected_;  ///< By request: what is received.
};

}  // namespace ptdp
