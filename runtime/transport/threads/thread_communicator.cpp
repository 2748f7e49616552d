// Turns sends and receives into transfers over the links of a group.
#include "runtime/transport/threads/thread_communicator.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace ptdp {
namespace {

/// Smallest slice that is offered in place [B]. Smaller slices are copied once more, so that their
/// sender does not wait.
constexpr std::int64_t kSmallestOffer = 16 << 10;

}  // namespace

ThreadCommunicator::ThreadCommunicator(std::shared_ptr<ThreadWorldState> world, ThreadGroup& group,
                                       int rank, Backend& backend)
    : MessageCommunicator(backend, world->algorithm),
      world_(std::move(world)),
      group_(&group),
      rank_(rank),
      lanes_(backend) {}

ThreadCommunicator::~ThreadCommunicator() {
  transfers_.end_all([this](Transfer& begun) { begun.link->withdraw(begun, lanes_); });
}

std::unique_ptr<Communicator> ThreadCommunicator::group(std::span<const int> ranks, int tag) {
  throw_if_aborted();
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  assert(place != ranks.end());
  const int rank = static_cast<int>(place - ranks.begin());
  return std::make_unique<ThreadCommunicator>(world_, group_->group(ranks, tag, rank), rank,
                                              backend());
}

void ThreadCommunicator::abort(ExitStatus) noexcept {
  world_->abort();
}

Request ThreadCommunicator::start_send(Buffer buffer, int to, Traffic traffic) {
  throw_if_aborted();
  ThreadLink& way = link(rank_, to, traffic);
  if (traffic == Traffic::kMessages || buffer.bytes() < kSmallestOffer) {
    way.send(buffer, lanes_);
    return {};
  }
  const Request request = transfers_.free_place();
  Transfer& offer = transfers_[request];
  offer.buffer = buffer;
  offer.is_offer = true;
  offer.is_collective = true;
  way.offer(offer, lanes_);
  offer.link = &way;
  transfers_.take();
  return request;
}

Request ThreadCommunicator::start_receive(Buffer buffer, int from, Traffic traffic,
                                          std::optional<Reduction> reduction) {
  throw_if_aborted();
  ThreadLink& way = link(from, rank_, traffic);
  const Request request = transfers_.free_place();
  Transfer& receive = transfers_[request];
  receive.buffer = buffer;
  receive.is_collective = traffic == Traffic::kCollectives;
  receive.reduction = reduction;
  way.receive(receive);
  receive.link = &way;
  transfers_.take();
  return request;
}

void ThreadCommunicator::wait_all(std::span<const Request> requests) {
  throw_if_aborted();
  // Receives come first: two ranks that exchange slices each wait until the other takes theirs.
  finish(requests, /*are_offers=*/false);
  finish(requests, /*are_offers=*/true);
}

void ThreadCommunicator::finish(std::span<const Request> requests, bool are_offers) {
  const auto is_meant = [&](Request request) {
    return request.id != 0 && transfers_[request].link != nullptr &&
           transfers_[request].is_offer == are_offers;
  };
  const Event mark = are_offers ? Event{} : lanes_.mark();
  // It starts at 1 until all transfers are looked at, so that it reaches 0 only once.
  Countdown remaining = 1;
  for (const Request& request : requests) {
    if (is_meant(request)) {
      Transfer& awaited = transfers_[request];
      (void)awaited.link->await(awaited, remaining, mark);
    }
  }
  if (remaining.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    group_->parking_of(rank_).wait_until([&] {
      return remaining.load(std::memory_order_acquire) == 0 ||
             world_->is_aborted.load(std::memory_order_relaxed);
    });
  }
  const bool is_aborted = remaining.load(std::memory_order_acquire) != 0;
  for (const Request& request : requests) {
    if (is_meant(request)) {
      Transfer& awaited = transfers_[request];
      if (is_aborted) {
        awaited.link->withdraw(awaited, lanes_);
      } else {
        awaited.link->collect(awaited, lanes_);
      }
      transfers_.give_back(request);
    }
  }
  if (is_aborted) {
    throw Aborted();
  }
}

void ThreadCommunicator::withdraw_collectives() noexcept {
  transfers_.end_collectives([this](Transfer& begun) { begun.link->withdraw(begun, lanes_); });
}

void ThreadCommunicator::throw_if_aborted() const {
  if (world_->is_aborted.load(std::memory_order_relaxed)) {
    throw Aborted();
  }
}

ThreadLink& ThreadCommunicator::link(int from, int to, Traffic traffic) const {
  return group_->link(from, to, static_cast<std::size_t>(traffic));
}

}  // namespace ptdp
