// Ordered messages from one thread to another.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/link_backend.h"
#include "runtime/transport/threads/wait_slot.h"

namespace ptdp {

class ThreadLink;
struct Message;

/// A receive or an offer, from the call that begins it until it is waited for. It does not move in
/// memory. The lock of its link guards it.
struct Transfer {
  /// How far a transfer has come.
  enum class State : std::uint8_t {
    kPending,  ///< The other side has not come yet.
    kInUse,    ///< The other side is reading or writing the buffer.
    kArrived,  ///< A receive whose message is in `message`.
    kDone,     ///< The contents are transferred.
    kBroken    ///< The other side failed in between.
  };

  Buffer buffer;               ///< What is sent, or where a receive writes.
  ThreadLink* link = nullptr;  ///< The transfer's link; null when the place is free.
  bool is_offer = false;       ///< An offer of a buffer to read, rather than a receive.
  bool is_collective = false;  ///< Begun by a collective.
  bool is_open = false;        ///< A receive whose buffer the sender may write to.
  /// How a receive combines the message with its buffer, if at all.
  std::optional<Reduction> reduction;
  State state = State::kPending;
  /// A mark behind what this side did to the buffer. In state kDone, a mark behind what the other
  /// side did.
  Event mark;
  /// Counter of the thread that waits for this transfer; null when none waits.
  Countdown* countdown = nullptr;
  std::unique_ptr<Message> message;  ///< The message that a receive got, in state kArrived.
  Message* offered = nullptr;  ///< The message of an offer that has not been taken; null otherwise.
  Transfer* next = nullptr;    ///< The next receive in the link's queue.

  [[nodiscard]] bool is_begun() const { return link != nullptr; }
};

/// A message in flight: a copy of what was sent, or an offer to read it from the sender's buffer.
struct Message {
  Buffer contents;             ///< The elements sent, in the copy or in the sender's buffer.
  std::shared_ptr<void> copy;  ///< Memory of the copy, aligned to 64 bytes; null for an offer.
  Event mark;                  ///< A mark behind the latest work on the copy.
  std::int64_t capacity = 0;   ///< Size of the copy's memory [B].
  /// The sender's offer. Null for a copy, and after the sender withdrew it.
  Transfer* offer = nullptr;
  std::unique_ptr<Message> next;  ///< The next message in the queue.
};

/// One direction between two ranks, with one sending thread and one receiving thread. The k-th
/// message goes to the k-th receive. When their types or sizes differ, the later of the two calls
/// throws Error(kRuntimeFault).
///
/// The backend passed to a call is the calling thread's. Whichever side comes second does the work
/// on its own lane, behind the work of the other side's lane. Threads meet before a lane waits for
/// another.
class ThreadLink {
 public:
  /// `from` and `to` are the rank numbers that error messages name. `sender` and `receiver` must
  /// outlive the link.
  ThreadLink(int from, int to, WaitSlot& sender, WaitSlot& receiver)
      : from_(from), to_(to), sender_(&sender), receiver_(&receiver) {}
  ThreadLink(const ThreadLink&) = delete;
  ThreadLink& operator=(const ThreadLink&) = delete;
  ThreadLink(ThreadLink&&) = delete;
  ThreadLink& operator=(ThreadLink&&) = delete;
  ~ThreadLink();

  /// Writes `buffer` into the buffer of a receiver that waits for it, or else keeps a copy. Never
  /// waits.
  void send(Buffer buffer, const LinkBackend& backend);
  /// Lets the receiver read `transfer.buffer` until the transfer is collected or withdrawn.
  void offer(Transfer& transfer, const LinkBackend& backend);
  /// Begins to expect a message in `transfer`, until it is collected or withdrawn. Nobody writes to
  /// the buffer before await() is called.
  void receive(Transfer& transfer);
  /// Returns whether the other side has yet to come. If so, raises `countdown` by one, which the
  /// other side lowers when it comes. The other side may then write to the buffer of a receive
  /// behind `mark`.
  [[nodiscard]] bool await(Transfer& transfer, Countdown& countdown, const Event& mark) noexcept;
  /// Completes `transfer` after the other side came, and frees it. Throws Aborted when an offer was
  /// withdrawn or the other side failed.
  void collect(Transfer& transfer, const LinkBackend& backend);
  /// Gives up `transfer` and frees it. Afterwards nobody reads or writes its buffer, or counts down
  /// for it.
  void withdraw(Transfer& transfer, const LinkBackend& backend) noexcept;

 private:
  [[nodiscard]] Transfer* claim(Buffer buffer);
  [[nodiscard]] std::unique_ptr<Message> kept_copy(Buffer buffer, const LinkBackend& backend);
  [[nodiscard]] std::unique_ptr<Message> take_spare(std::int64_t bytes);
  void keep_for_reuse(std::unique_ptr<Message> message);
  void deliver(std::unique_ptr<Message> message);
  template <class Work>
  void work_on(Transfer& transfer, WaitSlot& place, const LinkBackend& backend, const Work& work);
  void finish(Transfer& transfer, WaitSlot& place, Transfer::State state, Event mark);
  void remove(const Transfer& receive);

  int from_;
  int to_;
  WaitSlot* sender_;
  WaitSlot* receiver_;
  std::mutex mutex_;
  // At most one of the two queues has entries: messages or receives.
  std::unique_ptr<Message> first_message_;
  Message* last_message_ = nullptr;
  /// Copies kept for reuse; fresh memory costs as much as the copy.
  std::array<std::unique_ptr<Message>, 2> spares_;
  /// Further copies in device memory, which a lane may still be using.
  std::unique_ptr<Message> marked_spares_;
  Transfer* first_receive_ = nullptr;
  Transfer* last_receive_ = nullptr;
};

}  // namespace ptdp
