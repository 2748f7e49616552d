#include "runtime/transport/thread_link.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "cost_model/error.h"
#include "runtime/transport/combine.h"

namespace ptdp {
namespace {

using State = Transfer::State;

constexpr std::int64_t kSmallestCopy = 64;  // Bytes; so that scalars of all types share memory.

/// Whether a thread waits and this was the last that it waits for. The countdown is that thread's:
/// it may be gone once the link's lock is released.
bool count_down(const Transfer& transfer) {
  return transfer.countdown != nullptr &&
         transfer.countdown->fetch_sub(1, std::memory_order_acq_rel) == 1;
}

}  // namespace

ThreadLink::~ThreadLink() {
  while (first_message_ != nullptr) {
    first_message_ = std::move(first_message_->next);
  }
}

void ThreadLink::send(Buffer buffer, Backend& backend) {
  if (Transfer* const receive = claim(buffer)) {
    combine(buffer, receive->buffer, {}, backend);
    finish(*receive, *receiver_);
  } else {
    deliver(kept_copy(buffer, backend));
  }
}

// The first receive, if its receiver lets others write.
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

std::unique_ptr<Message> ThreadLink::kept_copy(Buffer buffer, Backend& backend) {
  const std::int64_t bytes = buffer.bytes();
  std::unique_ptr<Message> message;
  {
    const std::lock_guard lock(mutex_);
    for (std::unique_ptr<Message>& spare : spares_) {
      if (message == nullptr && spare != nullptr && spare->capacity >= bytes) {
        message = std::move(spare);
      }
    }
  }
  if (message == nullptr) {
    message = std::make_unique<Message>();
    message->capacity = std::max(bytes, kSmallestCopy);
    message->copy.reset(static_cast<std::byte*>(
        ::operator new (static_cast<std::size_t>(message->capacity), std::align_val_t{64})));
  }
  message->contents = {message->copy.get(), buffer.size, buffer.type};
  combine(buffer, message->contents, {}, backend);
  return message;
}

// The larger ones stay.
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
}

void ThreadLink::finish(Transfer& transfer, Parking& place) {
  bool was_last = false;
  {
    const std::lock_guard lock(mutex_);
    transfer.state = State::kDone;
    was_last = count_down(transfer);
  }
  if (was_last) {
    place.wake();
  }
}

void ThreadLink::offer(Transfer& transfer) {
  auto message = std::make_unique<Message>();
  message->contents = transfer.buffer;
  message->offer = &transfer;
  transfer.offered = message.get();
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

bool ThreadLink::await(Transfer& transfer, Countdown& countdown) {
  const std::lock_guard lock(mutex_);
  if (transfer.state == State::kArrived || transfer.state == State::kDone) {
    return false;
  }
  transfer.is_open = !transfer.reduction.has_value();
  transfer.countdown = &countdown;
  countdown.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ThreadLink::collect(Transfer& transfer, Backend& backend) {
  std::unique_ptr<Message> message = std::move(transfer.message);
  const Transfer received = std::exchange(transfer, {});
  if (message == nullptr) {
    return;
  }
  Transfer* offer = nullptr;
  if (message->copy == nullptr) {
    const std::lock_guard lock(mutex_);
    offer = message->offer;
    if (offer == nullptr) {
      throw Aborted();
    }
    offer->offered = nullptr;
    offer->state = State::kInUse;
  }
  combine(message->contents, received.buffer, received.reduction, backend);
  if (offer != nullptr) {
    finish(*offer, *sender_);
  } else {
    keep_for_reuse(std::move(message));
  }
}

void ThreadLink::withdraw(Transfer& transfer) noexcept {
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
  transfer = {};
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
