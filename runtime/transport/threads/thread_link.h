// Messages from one thread to another, in order.
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

/// A receive or an offer from its call until it is waited for, at a fixed place. Guarded by its
/// link's lock.
struct Transfer {
  enum class State : std::uint8_t {
    kPending,  ///< The other side is yet to come.
    kInUse,    ///< The other side reads or writes the buffer.
    kArrived,  ///< A receive whose message is in `message`.
    kDone,
    kBroken  ///< The other side failed in between.
  };

  Buffer buffer;
  ThreadLink* link = nullptr;  ///< None where the place is free.
  bool is_offer = false;
  bool is_collective = false;
  bool is_open = false;                ///< A receive whose buffer the sender may write to.
  std::optional<Reduction> reduction;  ///< How a receive combines the message with its buffer.
  State state = State::kPending;
  /// Behind what this side did to the buffer; once it is done, behind what the other side did.
  Event mark;
  Countdown* countdown = nullptr;  ///< Of the thread that waits.
  std::unique_ptr<Message> message;
  Message* offered = nullptr;  ///< Of an offer that was not taken.
  Transfer* next = nullptr;

  [[nodiscard]] bool is_begun() const { return link != nullptr; }
};

/// On its way: a copy of what was sent, or an offer of it.
struct Message {
  Buffer contents;
  std::shared_ptr<void> copy;  ///< Aligned to 64 bytes.
  Event mark;                  ///< Behind what was done to the copy last.
  std::int64_t capacity = 0;   ///< Of the copy [B].
  Transfer* offer = nullptr;   ///< Neither this nor a copy: withdrawn.
  std::unique_ptr<Message> next;
};

/// One direction between two ranks. One thread sends, one receives. The k-th message goes to the
/// k-th receive; where type or size differ, the later of the two throws Error(kRuntimeFault). A
/// backend is that of the calling thread. Whoever comes second does the work, on its own lane,
/// behind what the other side's lane did; threads meet before a lane waits for another.
class ThreadLink {
 public:
  /// `from` and `to` are what the ranks are called in messages; their places outlive the link.
  ThreadLink(int from, int to, WaitSlot& sender, WaitSlot& receiver)
      : from_(from), to_(to), sender_(&sender), receiver_(&receiver) {}
  ThreadLink(const ThreadLink&) = delete;
  ThreadLink& operator=(const ThreadLink&) = delete;
  ThreadLink(ThreadLink&&) = delete;
  ThreadLink& operator=(ThreadLink&&) = delete;
  ~ThreadLink();

  /// Writes to the buffer of a receiver that waits for it, else keeps a copy. Never waits.
  void send(Buffer buffer, const LinkBackend& backend);
  /// Lets the receiver read `transfer.buffer`, until it is collected or withdrawn.
  void offer(Transfer& transfer, const LinkBackend& backend);
  /// Expects a message, until it is collected or withdrawn. Nobody writes to the buffer of a
  /// receive that is not awaited.
  void receive(Transfer& transfer);
  /// Whether the other side is yet to come: then `countdown` was raised, and sinks when it came. It
  /// may write to the buffer of a receive behind `mark`.
  [[nodiscard]] bool await(Transfer& transfer, Countdown& countdown, const Event& mark) noexcept;
  /// After the other side came. `transfer` is free then. Throws Aborted where an offer was
  /// withdrawn, or the other side failed.
  void collect(Transfer& transfer, const LinkBackend& backend);
  /// Gives up: nobody reads or writes the buffer or counts down any more. `transfer` is free then.
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
  // Of the two queues one is empty.
  std::unique_ptr<Message> first_message_;
  Message* last_message_ = nullptr;
  std::array<std::unique_ptr<Message>, 2> spares_;  ///< Fresh memory costs as much as the copy.
  std::unique_ptr<Message> marked_spares_;          ///< More of them: a lane may be at them yet.
  Transfer* first_receive_ = nullptr;
  Transfer* last_receive_ = nullptr;
};

}  // namespace ptdp
