// One rank's end of a group of ranks that exchange buffers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
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
  /// Returns once every rank has called it.
  virtual void barrier() = 0;

  [[nodiscard]] virtual const SentBytes& sent() const = 0;

  /// Ends all communication of all ranks: whoever waits, and every call from here on, throws
  /// Aborted. `status` is what the job is to end with, unless another rank's came first. Of any
  /// thread.
  virtual void abort(ExitStatus status) noexcept = 0;
};

}  // namespace ptdp
