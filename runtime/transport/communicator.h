// One rank's end of a group of ranks that exchange buffers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "cost_model/error.h"
#include "kernels/backend.h"

namespace ptdp {

/// Kinds of communication whose bytes and calls are counted separately.
enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kSend,
};
inline constexpr int kNumCollectiveKinds = 4;
inline constexpr std::array<std::string_view, kNumCollectiveKinds> kCollectiveNames = {
    "all-reduce", "reduce-scatter", "all-gather", "send"};

/// Counts what one rank has sent through one communicator, by CollectiveKind.
struct SentBytes {
  /// Bytes sent [B].
  std::array<std::int64_t, kNumCollectiveKinds> bytes{};
  /// Numbers of sends, and of collective calls in groups of more than one rank.
  std::array<std::int64_t, kNumCollectiveKinds> messages{};

  /// Returns the bytes sent by `kind` [B].
  [[nodiscard]] std::int64_t operator[](CollectiveKind kind) const {
    return bytes[static_cast<std::size_t>(kind)];
  }
};

/// How a collective combines elements: by their sum or their maximum.
enum class Reduction : std::uint8_t { kSum, kMaximum };

/// How a collective reduces and gathers. Both algorithms send the same bytes: (n−1)/n of the buffer
/// to reduce, and as many to gather.
enum class CollectiveAlgorithm : std::uint8_t {
  kRing,    ///< n−1 steps, each to the next rank; the order of a sum depends on the part.
  kOrdered  ///< Pairwise exchange: the owner of a part sums it in the order of ranks.
};

/// Elements [first, first + count) of a buffer.
struct Part {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
/// Returns the part of a buffer of `size` elements that the i-th of n ranks owns, 0 <= i < n. Parts
/// differ by at most one element; nothing is padded here. Callers that want equal parts pad first,
/// as ParameterStore does.
[[nodiscard]] constexpr Part part_of(std::int64_t size, int n, int i) {
  const std::int64_t first = size * i / n;
  return {first, size * (i + 1) / n - first};
}

/// A message or collective in flight, which Communicator::wait() ends.
struct Request {
  std::uint64_t id = 0;  ///< The communicator's number of the request; 0 means nothing to wait for.
};

/// A directed pair of ranks of a group, for messages `from` one `to` the other.
struct MessageLink {
  int from = 0;
  int to = 0;

  friend bool operator==(const MessageLink&, const MessageLink&) = default;
};

/// Thrown in ranks that wait for another rank that failed, so that all ranks end. The failed rank
/// itself throws the cause.
class Aborted : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "another rank failed"; }
};

/// One rank's end of a group of at least one rank that exchange buffers. Every rank of a group
/// makes the same collective calls in the same order. Sends and receives between two ranks match in
/// the order in which they are made. A group of one rank sends nothing.
///
/// A fault of the transport throws Error(kRuntimeFault), and the group is unusable afterwards.
///
/// Only one thread at a time may use a communicator, with one exception. One thread may call send()
/// while another receives and waits for what it receives. Different threads may use different
/// groups of one rank.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  Communicator(Communicator&&) = delete;
  Communicator& operator=(Communicator&&) = delete;
  virtual ~Communicator() = default;

  /// Returns this rank's place in the group, 0..size()-1.
  [[nodiscard]] virtual int rank() const = 0;
  /// Returns the number of ranks in the group.
  [[nodiscard]] virtual int size() const = 0;
  /// Returns this rank's end of a group of the given ranks of this communicator, in the order
  /// given. `ranks` must contain this rank. All members call it with the same arguments; groups
  /// with equal members but different tags do not mix their messages. When calls are queued
  /// (is_queued), all ranks make the calls of groups with equal members in one order.
  [[nodiscard]] virtual std::unique_ptr<Communicator> group(std::span<const int> ranks,
                                                            int tag) = 0;
  /// Returns a group as group() does, but one that only sends messages along `links`, whose ends
  /// are ranks of the group. When calls are queued (is_queued), every rank of this communicator
  /// calls it at the same point with the same links. The groups made at that point have no rank in
  /// common, and a message waits only for earlier messages of its link.
  [[nodiscard]] virtual std::unique_ptr<Communicator> message_group(
      std::span<const int> ranks, int tag, std::span<const MessageLink> /*links*/) {
    return group(ranks, tag);
  }
  /// Called in place of group() by a rank that is in no group that others make. When calls are
  /// queued (is_queued), every rank makes one of the two calls at the same point. The groups made
  /// there have no rank in common. When calls are not queued it does nothing.
  virtual void skip_group() {}

  /// Begins to send `buffer` to rank `to`. The caller may reuse the buffer once it has waited for
  /// the request. The call does not wait for the receiver. When calls are queued (is_queued), a
  /// lane that waits for the request does.
  [[nodiscard]] virtual Request send(Buffer buffer, int to) = 0;
  /// Begins to receive from rank `from` into `buffer`, which is filled once the caller has waited
  /// for the request.
  [[nodiscard]] virtual Request receive(Buffer buffer, int from) = 0;
  /// Waits until `request` is done. A request with id 0 is done already.
  virtual void wait(Request request) = 0;

  /// Reduces `whole` in place: afterwards all ranks have the same elements. Each of n ranks sends
  /// 2(n−1)/n·S for a buffer of S bytes.
  virtual void all_reduce(Buffer whole, Reduction reduction) = 0;
  /// Sums `whole` in place: afterwards this rank's part_of(whole) is the sum, and the rest is
  /// unspecified. Each of n ranks sends (n−1)/n·S for a buffer of S bytes.
  virtual void reduce_scatter(Buffer whole) = 0;
  /// Gathers `whole` in place from the part_of(whole) of each rank, so that all ranks have all of
  /// it. Each of n ranks sends (n−1)/n·S for a buffer of S bytes.
  virtual void all_gather(Buffer whole) = 0;
  /// Begins an all_reduce() that the lane in use does not wait for. The caller may touch the buffer
  /// once it has waited for the request. When calls are not queued (is_queued) it is done on
  /// return.
  [[nodiscard]] virtual Request begin_all_reduce(Buffer whole, Reduction reduction) {
    all_reduce(whole, reduction);
    return {};
  }
  /// Begins a reduce_scatter() that the lane in use does not wait for. The caller may touch the
  /// buffer once it has waited for the request. When calls are not queued (is_queued) it is done
  /// on return.
  [[nodiscard]] virtual Request begin_reduce_scatter(Buffer whole) {
    reduce_scatter(whole);
    return {};
  }
  /// Begins an all_gather() that the lane in use does not wait for. The caller may touch the
  /// buffer once it has waited for the request. When calls are not queued (is_queued) it is done
  /// on return.
  [[nodiscard]] virtual Request begin_all_gather(Buffer whole) {
    all_gather(whole);
    return {};
  }
  /// Returns once every rank of the group has called it.
  virtual void barrier() = 0;

  /// Returns what this rank has sent through this communicator.
  [[nodiscard]] virtual const SentBytes& sent() const = 0;
  /// Returns whether calls other than barrier() only queue work on the lane in use, and return
  /// before the other ranks have made theirs. One thread of a rank then makes the calls of all its
  /// groups.
  [[nodiscard]] virtual bool is_queued() const { return false; }
  /// Throws what ended the world, if anything did: Aborted, or the transport's Error. Values read
  /// from a device since that failure may be wrong.
  virtual void check() {}
  /// Returns how long the transport itself expects one call to take [s], or nullopt when it makes
  /// no estimate. All ranks of the group ask for the same call.
  [[nodiscard]] virtual std::optional<double> estimate(CollectiveKind /*kind*/, Buffer /*whole*/) {
    return std::nullopt;
  }

  /// Ends all communication of all ranks: pending waits and all later calls throw Aborted. The job
  /// ends with `status`, unless another rank aborted first. Any thread may call it.
  virtual void abort(ExitStatus status) noexcept = 0;
};

/// One rank's end of the world over host memory, for communication that is not part of training.
/// When ranks compute on the host, it is their own world and backend.
struct HostSide {
  Communicator& world;
  Backend& backend;
};

}  // namespace ptdp
