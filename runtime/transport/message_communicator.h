// Collectives built from messages between two ranks, for every transport that moves such messages.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/transport/collective_slices.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// A communicator whose transport only moves messages between two ranks. A transport implements the
/// protected functions.
///
/// Large parts are cut into slices, which are in flight while others are summed. A rank receives at
/// most 1 MiB (kWindowBytes) at a time, whatever the size of the buffer and the group. A slice of
/// no elements is not sent.
///
/// All ranks end with identical bits, because the owner of a part forms its sum and the others copy
/// it. Sums round to the buffer's type at every step. With kOrdered a sum is
/// ((x0 + x1) + x2) + ...; with kRing the sum of part i begins at rank i+1 and ends at rank i.
class MessageCommunicator : public Communicator {
 public:
  /// The most that a rank receives at a time in a collective [B].
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
  /// Whether a message belongs to the caller or to a collective. The two kinds do not match each
  /// other, so that a caller's message may be in flight during a collective.
  enum class Traffic : std::uint8_t { kMessages, kCollectives };

  /// `backend` must outlive the communicator and hold all buffers passed to it.
  MessageCommunicator(Backend& backend, CollectiveAlgorithm algorithm)
      : backend_(&backend), algorithm_(algorithm) {}

  /// Begins to send `buffer`, which may be empty, to rank `to`. It must not wait for the receiver.
  /// Waiting for a send with kCollectives may wait for its receiver.
  [[nodiscard]] virtual Request start_send(Buffer buffer, int to, Traffic traffic) = 0;
  /// Begins to receive into `buffer`, which may be empty, from rank `from`. With a `reduction`,
  /// which only collectives pass, what arrives is combined with the buffer. A transport that can
  /// only receive does so into backend memory, at most kWindowBytes at a time, and combines it in
  /// wait_all().
  [[nodiscard]] virtual Request start_receive(Buffer buffer, int from, Traffic traffic,
                                              std::optional<Reduction> reduction) = 0;
  /// Waits for all `requests`, in any order, then combines in the order given. Requests with id 0
  /// are done already. It sleeps at most once if the transport allows.
  virtual void wait_all(std::span<const Request> requests) = 0;
  /// Gives up what collectives began and did not wait for. When it returns, nobody reads or writes
  /// the buffers of those messages. It is called when a collective ends, including by an exception.
  virtual void withdraw_collectives() noexcept = 0;

  [[nodiscard]] Backend& backend() const { return *backend_; }
  [[nodiscard]] CollectiveAlgorithm algorithm() const { return algorithm_; }

 private:
  /// Which halves of an all-reduce a collective runs.
  enum class Phases : std::uint8_t { kReduceScatter, kAllGather, kBoth };

  /// Withdraws what a collective began, when it leaves its scope. It must be destroyed before the
  /// memory that the collective uses.
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

  /// Runs the chosen phases of a collective of kind `kind` on `whole`, with the communicator's
  /// algorithm.
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
  std::vector<Request> requests_;  ///< Requests of one round; a member only to reuse its memory.
};

}  // namespace ptdp
