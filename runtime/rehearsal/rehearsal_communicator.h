// The world of a rank that rehearses alone, which hears values like those of other ranks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "kernels/backend.h"
#include "runtime/rehearsal/cache_evictor.h"
#include "runtime/transport/forwarding_communicator.h"

namespace ptdp {

/// A communicator over SoloCommunicator: messages are free and counted. A rank must compute on
/// values as a training has them, without NaN and denormal numbers. So buffers get these values:
///
///   received messages   Normal variates: of deviation 1 forward, as activations; 0.001 backward,
///                       as gradients of a scaled loss. They are written when they are waited for,
///                       which is in no action's time: others compute then.
///   all-gathers of the  This rank's part in the place of every other one. It is part of the
///   tensor group, and   collective, which TimedCommunicator sees apart from compute.
///   of sharded weights
///   all others          As SoloCommunicator leaves them: partial sums, and parameters that every
///                       rank began with.
class RehearsalCommunicator final : public ForwardingCommunicator {
 public:
  /// Makes the world of a rank. `backend` fills buffers; `others` is used whenever a message is
  /// waited for. Both must outlive this object.
  RehearsalCommunicator(Backend& backend, CacheEvictor& others, int rank, int size);

  /// Makes a group. `tag` is a GroupTag of group_tag.h, which says what the group is for.
  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override;
  [[nodiscard]] Request receive(Buffer buffer, int from) override;
  void wait(Request request) override;
  void all_gather(Buffer whole) override;
  [[nodiscard]] Request begin_all_gather(Buffer whole) override;
  /// Returns whether the backend is a device's. As with NCCL, one thread then issues the work of
  /// all lanes.
  [[nodiscard]] bool is_queued() const override { return backend_.native_lane() != nullptr; }

 private:
  RehearsalCommunicator(Backend& backend, CacheEvictor& others, std::unique_ptr<Communicator> inner,
                        int tag);

  Backend& backend_;
  CacheEvictor& others_;
  int tag_;
  std::uint64_t last_request_ = 0;
  std::map<std::uint64_t, Buffer> expected_;  ///< Buffers to be received, by request.
};

}  // namespace ptdp
