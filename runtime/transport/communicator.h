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

/// What is counted apart.
enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kSend,
};
inline constexpr int kNumCollectiveKinds = 4;
inline constexpr std::array<std::string_view, kNumCollectiveKinds> kCollectiveNames = {
    "all-reduce", "reduce-scatter", "all-gather", "send"};

/// What this rank sent so far.
struct SentBytes {
  std::array<std::int64_t, kNumCollectiveKinds> bytes{};
  /// Sends, and calls of collectives in groups of several ranks.
  std::array<std::int64_t, kNumCollectiveKinds> messages{};

  [[nodiscard]] std::int64_t operator[](CollectiveKind kind) const {
    return bytes[static_cast<std::size_t>(kind)];
  }
};

enum class Reduction : std::uint8_t { kSum, kMaximum };

/// How sums are formed. Both send the same bytes: (n−1)/n of the buffer to reduce, as many to
/// gather.
enum class CollectiveAlgorithm : std::uint8_t {
  kRing,    ///< n−1 steps to each neighbour; the order of a sum depends on the part.
  kOrdered  ///< Pairwise exchange: every part is summed by its owner in the order of ranks.
};

/// The part of a buffer of `size` elements that the i-th of n ranks owns: [first, first + count).
/// Parts differ by one element at most; nothing is padded.
struct Part {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
[[nodiscard]] constexpr Part part_of(std::int64_t size, int n, int i) {
  const std::int64_t first = size * i / n;
  return {first, size * (i + 1) / n - first};
}

/// A message under way; wait() ends it.
struct Request {
  std::uint64_t id = 0;  ///< 0: nothing to wait for.
};

/// That one rank of a group sends to another.
struct MessageLink {
  int from = 0;
  int to = 0;

  friend bool operator==(const MessageLink&, const MessageLink&) = default;
};

/// Thrown in ranks that wait for a rank that failed, so that all end; the cause is that rank's.
class Aborted : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "another rank failed"; }
};

/// Every rank of a group makes the same collective calls in the same order. Sends and receives
/// between two ranks match in the order in which they are made. A group has one rank at least;
/// groups of one send nothing. Faults of the transport throw Error(kRuntimeFault); the group is
/// unusable afterwards. One thread at a time uses a communicator, but for send(), which one thread
/// may call while another receives and waits for that; the groups of a rank may be used by
/// different threads.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  Communicator(Communicator&&) = delete;
  Communicator& operator=(Communicator&&) = delete;
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// This rank's end of a group of some ranks of this one, in the order given, which must contain
  /// this rank. All of them call it with the same arguments; groups with equal members and unequal
  /// tags are apart.
  [[nodiscard]] virtual std::unique_ptr<Communicator> group(std::span<const int> ranks,
                                                            int tag) = 0;
  /// As group(), for messages along `links` (ranks of the group) alone. Where calls are queued,
  /// every rank of this one calls it at the same point with the same links, in groups that have no
  /// rank in common, and a message waits for no others than those of its link.
  [[nodiscard]] virtual std::unique_ptr<Communicator> message_group(
      std::span<const int> ranks, int tag, std::span<const MessageLink> /*links*/) {
    return group(ranks, tag);
  }
  /// In place of group() where others of this one make a group without this rank. Where calls are
  /// queued (is_queued), every rank makes one of the two calls at the same point, and the groups
  /// that are made there have no rank in common; else it does nothing.
  virtual void skip_group() {}

  /// The buffer may be used again once the request is waited for. No send waits for its receiver.
  [[nodiscard]] virtual Request send(Buffer buffer, int to) = 0;
  /// The buffer is filled once the request is waited for.
  [[nodiscard]] virtual Request receive(Buffer buffer, int from) = 0;
  virtual void wait(Request request) = 0;

  /// In place: afterwards all ranks have the same. 2(n−1)/n·S sent.
  virtual void all_reduce(Buffer whole, Reduction reduction) = 0;
  /// In place: afterwards this rank's part_of(whole) is the sum; the rest is unspecified.
  /// (n−1)/n·S.
  virtual void reduce_scatter(Buffer whole) = 0;
  /// In place: before, this rank's part_of(whole) is there; afterwards all of it. (n−1)/n·S.
  virtual void all_gather(Buffer whole) = 0;
  /// As those, but the lane in use goes on without them: the buffer may be touched once the request
  /// is waited for. Where calls are not queued (is_queued) it is done when the call returns.
  [[nodiscard]] virtual Request begin_all_reduce(Buffer whole, Reduction reduction) {
    all_reduce(whole, reduction);
    return {};
  }
  [[nodiscard]] virtual Request begin_reduce_scatter(Buffer whole) {
    reduce_scatter(whole);
    return {};
  }
  [[nodiscard]] virtual Request begin_all_gather(Buffer whole) {
    all_gather(whole);
    return {};
  }
  /// Returns once every rank has called it.
  virtual void barrier() = 0;

  [[nodiscard]] virtual const SentBytes& sent() const = 0;
  /// Whether calls but barrier() only queue work on the lane in use, and return before the other
  /// ranks made theirs. One thread of a rank then makes the calls of all its groups.
  [[nodiscard]] virtual bool is_queued() const { return false; }
  /// Throws what ended the world, if anything did: Aborted, or the transport's Error. What was read
  /// from a device since may be wrong then.
  virtual void check() {}
  /// What the transport itself expects one call to take, where it says so [s]. All ranks of the
  /// group ask the same.
  [[nodiscard]] virtual std::optional<double> estimate(CollectiveKind /*kind*/, Buffer /*whole*/) {
    return std::nullopt;
  }

  /// Ends all communication of all ranks: whoever waits, and every call from here on, throws
  /// Aborted. `status` is what the job is to end with, unless another rank's came first. Of any
  /// thread.
  virtual void abort(ExitStatus status) noexcept = 0;
};

/// A rank's end of the world over memory of the host's, for what is no part of training. Where
/// ranks compute on the host, their world and backend themselves.
struct HostSide {
  Communicator& world;
  Backend& backend;
};

}  // namespace ptdp
