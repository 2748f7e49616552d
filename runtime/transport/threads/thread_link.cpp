// How two threads hand over messages and offers, and who of them does the copying.
#include "runtime/transport/threads/thread_link.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "cost_model/error.h"
#include "runtime/transport/combine.h"

namespace ptdp {
namespace {

using State = Transfer::State;

constexpr std::int64_t kSmallestCopy = 64;  // Bytes, so that scalars of all types share memory.

/// Returns whether a thread waits for `transfer` and this was the last that it waits for. The
/// countdown is that thread's: it may be gone once the link's lock is released.
bool count_down(const Transfer& transfer) {
  return transfer.countdown != nullptr &&
         transfer.countdown->fetch_sub(1, std::memory_order_acq_rel) == 1;
}

/// Calls `work` on the contents of a copy, behind the latest work on them, and marks it.
template <class Work>
void work_on_copy(Message& message, const LinkBackend& backend, const Work& work) {
  if (!message.contents.empty()) {
    backend.wait_for(message.mark);
    work();
    message.mark = backend.mark();
  }
}

// Releases one message at a time, so that a long list does not take a deep stack.
void release_all(std::unique_ptr<Message>& first) {
  while (first != nullptr) {
    first = std::move(first->next);
  }
}

}  // namespace

ThreadLink::~ThreadLink() {
  release_all(first_message_);
  release_all(marked_spares_);
}

void ThreadLink::send(Buffer buffer, const LinkBackend& backend) {
  if (Transfer* const receive = claim(buffer)) {
    work_on(*receive, *receiver_, backend, [&] { combine(buffer, receive->buffer, {}, *backend); });
  } else {
    deliver(kept_copy(buffer, backend));
  }
}

// Takes the first receive, if its receiver lets others write to it; returns null otherwise.
Transfer* ThreadLink::claim(Buffer buffer) {
  const std::lock_guard lock(mutex_);
  Transfer* const receive = first_receive_;
  if (receive == nullptr || !receive->is_open) {
    return nullptr;
  }
  check_received(buffer, from_, receive->buffer, to_);
  remove(*receive);
  receive->state = State::kInUse;
  return receive;
}

std::unique_ptr<Message> ThreadLink::kept_copy(Buffer buffer, const LinkBackend& backend) {
  const std::int64_t bytes = buffer.bytes();
  std::unique_ptr<Message> message = take_spare(bytes);
  if (message == nullptr) {
    message = std::make_unique<Message>();
    message->capacity = std::max(bytes, kSmallestCopy);
    message->copy = (*backend).message_memory(message->capacity);
  }
  message->contents = {message->copy.get(), buffer.size, buffer.type};
  work_on_copy(*message, backend, [&] { combine(buffer, message->contents, {}, *backend); });
  return message;
}

std::unique_ptr<Message> ThreadLink::take_spare(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (std::unique_ptr<Message>& spare : spares_) {
    if (spare != nullptr && spare->capacity >= bytes) {
      return std::move(spare);
    }
  }
  std::unique_ptr<Message>* place = &marked_spares_;
  while (*place != nullptr && (*place)->capacity < bytes) {
    place = &(*place)->next;
  }
  std::unique_ptr<Message> found = std::move(*place);
  if (found != nullptr) {
    *place = std::move(found->next);
  }
  return found;
}

// Keeps the larger copies, and those in device memory, which a lane may still be using.
void ThreadLink::keep_for_reuse(std::unique_ptr<Message> message) {
  const std::lock_guard lock(mutex_);
  for (std::unique_ptr<Message>& spare : spares_) {
    if (spare == nullptr || spare->capacity < message->capacity) {
      std::swap(spare, message);
      if (message == nullptr) {
        return;
      }
    }
  }
  if (message->mark.device != nullptr) {
    message->next = std::move(marked_spares_);
    marked_spares_ = std::move(message);
  }
}

// Calls `work` on a buffer that the other side has handed over.
template <class Work>
void ThreadLink::work_on(Transfer& transfer, WaitSlot& place, const LinkBackend& backend,
                         const Work& work) {
  Event mark;
  try {
    backend.wait_for(transfer.mark);
    work();
    mark = backend.mark();
  } catch (...) {
    finish(transfer, place, State::kBroken, {});
    throw;
  }
  finish(transfer, place, State::kDone, std::move(mark));
}

void ThreadLink::finish(Transfer& transfer, WaitSlot& place, State state, Event mark) {
  bool was_last = false;
  {
    const std::lock_guard lock(mutex_);
    transfer.state = state;
    transfer.mark = std::move(mark);
    was_last = count_down(transfer);
  }
  if (was_last) {
    place.wake();
  }
}

void ThreadLink::offer(Transfer& transfer, const LinkBackend& backend) {
  auto message = std::make_unique<Message>();
  message->contents = transfer.buffer;
  message->offer = &transfer;
  transfer.offered = message.get();
  transfer.mark = backend.mark();
  deliver(std::move(message));
}

void ThreadLink::deliver(std::unique_ptr<Message> message) {
  bool was_last = false;
  {
    const std::lock_guard lock(mutex_);
    if (Transfer* const receive = first_receive_) {
      check_received(message->contents, from_, receive->buffer, to_);
      remove(*receive);
      receive->message = std::move(message);
      receive->state = State::kArrived;
      was_last = count_down(*receive);
    } else {
      Message* const last = message.get();
      (last_message_ == nullptr ? first_message_ : last_message_->next) = std::move(message);
      last_message_ = last;
    }
  }
  if (was_last) {
    receiver_->wake();
  }
}

void ThreadLink::receive(Transfer& transfer) {
  const std::lock_guard lock(mutex_);
  if (first_message_ != nullptr) {
    check_received(first_message_->contents, from_, transfer.buffer, to_);
    transfer.message = std::exchange(first_message_, std::move(first_message_->next));
    transfer.state = State::kArrived;
    if (first_message_ == nullptr) {
      last_message_ = nullptr;
    }
  } else {
    (last_receive_ == nullptr ? first_receive_ : last_receive_->next) = &transfer;
    last_receive_ = &transfer;
  }
}

bool ThreadLink::await(Transfer& transfer, Countdown& countdown, const Event& mark) noexcept {
  const std::lock_guard lock(mutex_);
  if (transfer.state != State::kPending && transfer.state != State::kInUse) {
    return false;
  }
  if (!transfer.is_offer && !transfer.reduction.has_value() && !transfer.is_open) {
    transfer.is_open = true;
    transfer.mark = mark;
  }
  transfer.countdown = &countdown;
  countdown.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ThreadLink::collect(Transfer& transfer, const LinkBackend& backend) {
  std::unique_ptr<Message> message = std::move(transfer.message);
  const Transfer received = std::exchange(transfer, {});
  if (received.state == State::kBroken) {
    throw Aborted();
  }
  if (message == nullptr) {
    backend.wait_for(received.mark);
    return;
  }
  const auto read = [&] {
    combine(message->contents, received.buffer, received.reduction, *backend);
  };
  if (message->copy != nullptr) {
    work_on_copy(*message, backend, read);
    keep_for_reuse(std::move(message));
    return;
  }
  Transfer* offer = nullptr;
  {
    const std::lock_guard lock(mutex_);
    offer = message->offer;
    if (offer == nullptr) {
      throw Aborted();
    }
    offer->offered = nullptr;
    offer->state = State::kInUse;
  }
  work_on(*offer, *sender_, backend, read);
}

void ThreadLink::withdraw(Transfer& transfer, const LinkBackend& backend) noexcept {
  std::unique_lock lock(mutex_);
  transfer.countdown = nullptr;
  while (transfer.state == State::kInUse) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  if (transfer.state == State::kPending) {
    if (!transfer.is_offer) {
      remove(transfer);
    } else if (transfer.offered != nullptr) {
      transfer.offered->offer = nullptr;
    }
  }
  if (transfer.message != nullptr && transfer.message->offer != nullptr) {
    transfer.message->offer->offered = nullptr;
  }
  lock.unlock();
  const Transfer ended = std::exchange(transfer, {});
  if (ended.state == State::kDone) {
    try {
      backend.wait_for(ended.mark);
    } catch (...) {
      // The device failed, and with it its work on the buffer.
    }
  }
}

void ThreadLink::remove(const Transfer& receive) {
  Transfer* before = nullptr;
  for (Transfer* place = first_receive_; place != &receive; place = place->next) {
    before = place;
  }
  (before == nullptr ? first_receive_ : before->next) = receive.next;
  if (last_receive_ == &receive) {
    last_receive_ = before;
  }
}

}  // namespace ptdp
