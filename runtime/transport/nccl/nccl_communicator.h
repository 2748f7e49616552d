// One rank's end of a group that communicates over NCCL.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/transport/communicator.h"
#include "runtime/transport/nccl/nccl_channel.h"
#include "runtime/transport/nccl/nccl_world_state.h"

namespace ptdp {

/// One rank's end of a group over NCCL, made by NcclWorld. Collectives run on the lane in use.
/// Messages and begun collectives run beside it, on streams of their own.
///
/// A message waits on its stream until its receiver takes it. Messages of a message_group() wait
/// only for earlier messages of their link. Messages of other groups share one stream, in the order
/// of the calls. The buffer of a request must stay until it is waited for. The lane that waited may
/// then touch it.
class NcclCommunicator final : public Communicator {
 public:
  /// A rank's place in a group.
  struct Place {
    std::vector<int> members;  ///< Ranks of the world, in the order of the group.
    int rank = 0;              ///< Index of this rank in `members`.
  };
  /// Makes the world's end. `end` has a communicator; `blocks` limit the kernels of its parts.
  /// `host` is the rank's end of the same ranks over host memory. `host` and `backend` must outlive
  /// this end.
  NcclCommunicator(std::shared_ptr<NcclWorldState> world, Place place, const NcclBlocks& blocks,
                   const std::shared_ptr<NcclEnd>& end, Backend& backend, Communicator& host);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  NcclCommunicator(NcclCommunicator&&) = delete;
  NcclCommunicator& operator=(NcclCommunicator&&) = delete;
  ~NcclCommunicator() override;

  [[nodiscard]] int rank() const override { return place_.rank; }
  [[nodiscard]] int size() const override { return static_cast<int>(place_.members.size()); }
  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override;
  [[nodiscard]] std::unique_ptr<Communicator> message_group(
      std::span<const int> ranks, int tag, std::span<const MessageLink> links) override;
  void skip_group() override;

  [[nodiscard]] Request send(Buffer buffer, int to) override;
  [[nodiscard]] Request receive(Buffer buffer, int from) override;
  void wait(Request request) override;
  void all_reduce(Buffer whole, Reduction reduction) override;
  void reduce_scatter(Buffer whole) override;
  void all_gather(Buffer whole) override;
  [[nodiscard]] Request begin_all_reduce(Buffer whole, Reduction reduction) override;
  [[nodiscard]] Request begin_reduce_scatter(Buffer whole) override;
  [[nodiscard]] Request begin_all_gather(Buffer whole) override;
  void barrier() override;

  [[nodiscard]] const SentBytes& sent() const override { return sent_; }
  [[nodiscard]] bool is_queued() const override { return true; }
  void check() override { world_->throw_if_ended(world_rank()); }
  [[nodiscard]] std::optional<double> estimate(CollectiveKind kind, Buffer whole) override;
  void abort(ExitStatus status) noexcept override;

 private:
  /// A message from this rank to itself, until it is received.
  struct OwnMessage {
    Buffer buffer;
    std::uint64_t request = 0;
  };
  /// A request that has begun.
  struct Begun {
    NcclChannel* channel = nullptr;
    std::shared_ptr<void> event = {};  ///< Event of the operation's end.
  };
  using Channels = std::map<int, NcclChannel>;  ///< Channels by the other rank of their link.

  /// Makes the end of a group of `world`, without channels yet.
  NcclCommunicator(const NcclCommunicator& world, Place place,
                   std::unique_ptr<Communicator> host_group);

  [[nodiscard]] int world_rank() const {
    return place_.members[static_cast<std::size_t>(place_.rank)];
  }
  /// Returns the channel of all ranks. Throws Error(kRuntimeFault) in a group that has none.
  [[nodiscard]] NcclChannel& require_all();
  /// Returns this rank's place in a group of `ranks`, which are ranks of this one.
  [[nodiscard]] Place place_among(std::span<const int> ranks) const;
  /// Splits the channel of all ranks and returns this rank's end of its part.
  [[nodiscard]] std::shared_ptr<NcclEnd> split(int colour, int key, const std::string& name,
                                               const SplitOptions& options = {});
  /// Returns the channel of a group of these world ranks. Groups outside of passes share one.
  [[nodiscard]] std::shared_ptr<NcclChannel> channel_of(const Place& place, int tag, int colour);
  /// Makes the channel of a link, and has NCCL connect its two ranks by a first message.
  void connect(const MessageLink& link, const std::shared_ptr<NcclEnd>& end);
  /// Begins to send to rank `to` of the channel.
  [[nodiscard]] Request begin_send(NcclChannel& channel, Buffer buffer, int to);
  /// Begins to receive from rank `from` of the channel.
  [[nodiscard]] Request begin_receive(NcclChannel& channel, Buffer buffer, int from);
  /// Begins to receive the oldest message of this rank to itself. Throws Error when there is none.
  [[nodiscard]] Request receive_own(Buffer buffer);
  /// Returns a request that is done at `event`.
  [[nodiscard]] Request request_of(NcclChannel& channel, std::shared_ptr<void> event);
  /// Throws Error(kRuntimeFault) for a message along a link that the group does not have.
  [[noreturn]] void throw_without_link(int from, int to) const;
  /// Makes NCCL's calls for one collective in place.
  [[nodiscard]] ncclResult_t issue(ncclComm_t communicator, cudaStream_t stream,
                                   CollectiveKind kind, Buffer whole, ncclRedOp_t operation) const;
  /// Queues a collective on the lane in use.
  void collect(CollectiveKind kind, Buffer whole, ncclRedOp_t operation);
  /// Begins a collective on the channel's own stream.
  [[nodiscard]] Request begin(CollectiveKind kind, Buffer whole, ncclRedOp_t operation);
  /// Counts the bytes that a ring would send, and one call.
  void count(CollectiveKind kind, Buffer whole);

  std::shared_ptr<NcclWorldState> world_;
  Place place_;
  NcclBlocks blocks_;
  Backend& backend_;
  /// The host side of a group; null in the world's end.
  std::unique_ptr<Communicator> host_group_;
  Communicator* host_;
  /// The channel of all ranks. There is none in groups of one rank of a larger world, and in
  /// message groups.
  std::shared_ptr<NcclChannel> all_;
  /// Channels that groups with these members share, whose collectives follow one another.
  std::map<std::vector<int>, std::weak_ptr<NcclChannel>> shared_;
  Channels to_;    ///< Channels of links from this rank, by receiver.
  Channels from_;  ///< Channels of links to this rank, by sender.
  std::uint64_t last_request_ = 0;
  std::map<std::uint64_t, Begun> begun_;  ///< Requests that were not waited for yet, by id.
  std::deque<OwnMessage> own_messages_;   ///< Messages to this rank itself, in order.
  SentBytes sent_;
};

}  // namespace ptdp
