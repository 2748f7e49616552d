// The end of one rank of a group over NCCL.
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

/// Made by NcclWorld. Collectives run on the lane in use, messages and what is begun beside it, on
/// streams of their own. A message waits, on its stream, until its receiver takes it; those of a
/// link of message_group() wait for no others, those of a group's share one stream in the order of
/// the calls. The buffer of a request must stay until it is waited for, and may be touched again as
/// seen by the lane that waited.
class NcclCommunicator final : public Communicator {
 public:
  /// The rank's place among `members` (ranks of the world).
  struct Place {
    std::vector<int> members;
    int rank = 0;
  };
  /// The world's end. `end` has a communicator; `host` is the rank's end of the same ranks over the
  /// host, and must outlive it as must the backend.
  NcclCommunicator(std::shared_ptr<NcclWorldState> world, Place place,
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
  /// A message to this rank itself, until it is received.
  struct OwnMessage {
    Buffer buffer;
    std::uint64_t request = 0;
  };
  struct Begun {
    NcclChannel* channel = nullptr;
    std::shared_ptr<void> event = {};  ///< Of its end.
  };
  using Channels = std::map<int, NcclChannel>;  ///< By the other rank.

  NcclCommunicator(const NcclCommunicator& world, Place place,
                   std::unique_ptr<Communicator> host_group);

  [[nodiscard]] int world_rank() const {
    return place_.members[static_cast<std::size_t>(place_.rank)];
  }
  /// The channel of all ranks; throws Error in groups that have none.
  [[nodiscard]] NcclChannel& require_all();
  [[nodiscard]] Place place_among(std::span<const int> ranks) const;
  [[nodiscard]] std::shared_ptr<NcclEnd> split(int colour, int key, const std::string& name,
                                               bool is_blocking = false);
  void connect(const MessageLink& link, const std::shared_ptr<NcclEnd>& end);
  /// `to` and `from` are ranks of the channel.
  [[nodiscard]] Request begin_send(NcclChannel& channel, Buffer buffer, int to);
  [[nodiscard]] Request begin_receive(NcclChannel& channel, Buffer buffer, int from);
  [[nodiscard]] Request receive_own(Buffer buffer);
  [[nodiscard]] Request request_of(NcclChannel& channel, std::shared_ptr<void> event);
  [[noreturn]] void throw_without_link(int from, int to) const;
  [[nodiscard]] ncclResult_t issue(ncclComm_t communicator, cudaStream_t stream,
                                   CollectiveKind kind, Buffer whole, ncclRedOp_t operation) const;
  void collect(CollectiveKind kind, Buffer whole, ncclRedOp_t operation);
  [[nodiscard]] Request begin(CollectiveKind kind, Buffer whole, ncclRedOp_t operation);
  void count(CollectiveKind kind, Buffer whole);

  std::shared_ptr<NcclWorldState> world_;
  Place place_;
  Backend& backend_;
  std::unique_ptr<Communicator> host_group_;  ///< Null in the world's end.
  Communicator* host_;
  std::optional<NcclChannel> all_;  ///< None in groups of one and of messages.
  Channels to_;                     ///< Of links.
  Channels from_;
  std::uint64_t last_request_ = 0;
  std::map<std::uint64_t, Begun> begun_;  ///< By request: what was not waited for yet.
  std::deque<OwnMessage> own_messages_;
  SentBytes sent_;
};

}  // namespace ptdp
