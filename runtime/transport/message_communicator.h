// Collectives written once over messages between two ranks, for every transport that has those.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/transport/collective_slices.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// A communicator whose transport moves messages alone: a transport implements the protected part.
///
/// Parts that are large are cut into slices: what a rank receives at a time is at most 1 MiB
/// (kWindowBytes), whatever the buffer and the group, and slices are under way while others are
/// summed. All ranks end with identical bits: a sum is formed by the part's owner and copied. Sums
/// round to the buffer's type at every step; with kOrdered a sum is ((x0 + x1) + x2) + ..., with
/// kRing that of part i begins at rank i+1 and ends at i. A slice of no elements is not sent.
class MessageCommunicator : public Communicator {
 public:
  static constexpr std::int64_t kWindowBytes = std::int64_t{1} << 20;

  [[nodiscard]] Request send(Buffer buffer, int to) final;
  [[nodiscard]] Request receive(Buffer buffer, int from) final;
  void wait(Request request) final;
  void all_reduce(Buffer whole, Reduction reduction) final;
  void reduce_scatter(Buffer whole) final;
  void all_gather(Buffer whole) final;
  void barrier() final;
  [[nodiscard]] const SentBytes& sent() const final { return sent_; }

 protected:
  /// Collectives and the callers' own messages do not match each other, so that a message may be
  /// under way during a collective.
  enum class Traffic : std::uint8_t { kMessages, kCollectives };

  /// `backend` must outlive the communicator and hold all buffers.
  MessageCommunicator(Backend& backend, CollectiveAlgorithm algorithm)
      : backend_(&backend), algorithm_(algorithm) {}

  /// As Communicator's send, receive and wait; buffers may be empty. A send of a collective may
  /// wait for its receiver, but only once it is waited for.
  [[nodiscard]] virtual Request start_send(Buffer buffer, int to, Traffic traffic) = 0;
  /// With a `reduction`, of a collective alone, what comes is combined with the buffer. A transport
  /// that can only receive does so into memory of the backend's, at most kWindowBytes at a time,
  /// and combines it in wait_all.
  [[nodiscard]] virtual Request start_receive(Buffer buffer, int from, Traffic traffic,
                                              std::optional<Reduction> reduction) = 0;
  /// Waits for all of them, in any order, then combines in the order given; requests of id 0 are
  /// over. Sleeps once at most where the transport can.
  virtual void wait_all(std::span<const Request> requests) = 0;
  /// Gives up what collectives began and did not wait for: when it returns nobody reads or writes
  /// those buffers. Called when a collective ends, also by an exception.
  virtual void withdraw_collectives() noexcept = 0;

  [[nodiscard]] Backend& backend() const { return *backend_; }
  [[nodiscard]] CollectiveAlgorithm algorithm() const { return algorithm_; }

 private:
  /// Which half of an all-reduce.
  enum class Phases : std::uint8_t { kReduceScatter, kAllGather, kBoth };

  /// Of a collective: lives shorter than its memory.
  class Withdrawal {
   public:
    explicit Withdrawal(MessageCommunicator& communicator) : communicator_(&communicator) {}
    Withdrawal(const Withdrawal&) = delete;
    Withdrawal& operator=(const Withdrawal&) = delete;
    Withdrawal(Withdrawal&&) = delete;
    Withdrawal& operator=(Withdrawal&&) = delete;
    ~Withdrawal() { communicator_->withdraw_collectives(); }

   private:
    MessageCommunicator* communicator_;
  };

  void run(Buffer whole, Phases phases, Reduction reduction, CollectiveKind kind);
  void run_ring(Buffer whole, Phases phases, Reduction reduction, CollectiveKind kind);
  void run_ordered(Buffer whole, Phases phases, Reduction reduction, CollectiveKind kind);
  void reduce_in_order(const CollectiveSlices& slices, std::int64_t round, Buffer scratch,
                       Reduction reduction, CollectiveKind kind);
  void gather_from_owners(const CollectiveSlices& slices, std::int64_t round, CollectiveKind kind);
  [[nodiscard]] Request send_slice(Buffer slice, int to, CollectiveKind kind);
  [[nodiscard]] Request receive_slice(Buffer slice, int from);
  [[nodiscard]] Request combine_slice(Buffer to, int from, Reduction reduction);

  Backend* backend_;
  CollectiveAlgorithm algorithm_;
  SentBytes sent_ = {};
  std::vector<Request> requests_;  ///< Of a round; kept for its memory.
};

}  // namespace ptdp
