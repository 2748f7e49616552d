// Creates links and groups of threads at their first use.
#include "runtime/transport/threads/thread_group.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "runtime/transport/polling.h"

namespace ptdp {
namespace {

/// Returns the ranks 0..size−1.
std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// A thread that yields finds its message about 2 us after it was sent, one that slept 5 to 40 us.
// With many ranks per core, a thread that looks keeps the core from the one it waits for. Measured
// on 2 cores, best are 64 looks for each of 2 ranks, 16 for each of 8, and none for each of 64 or
// more.
std::deque<WaitSlot> parking_places(int size) {
  std::deque<WaitSlot> places;
  for (int rank = 0; rank < size; ++rank) {
    places.emplace_back(looks_of_each(64, size));
  }
  return places;
}

}  // namespace

ThreadGroup::ThreadGroup(std::vector<int> members, std::deque<WaitSlot>& parking)
    : members_(std::move(members)),
      parking_(&parking),
      links_(kNumChannels * members_.size() * members_.size()) {}

ThreadGroup::~ThreadGroup() {
  for (const std::atomic<ThreadLink*>& link : links_) {
    delete link.load();
  }
}

WaitSlot& ThreadGroup::parking_of(int rank) const {
  return (*parking_)[static_cast<std::size_t>(members_[static_cast<std::size_t>(rank)])];
}

ThreadLink& ThreadGroup::link(int from, int to, std::size_t channel) {
  const auto first = static_cast<std::size_t>(from);
  const auto second = static_cast<std::size_t>(to);
  std::atomic<ThreadLink*>& place =
      links_[(channel * members_.size() + first) * members_.size() + second];
  ThreadLink* link = place.load(std::memory_order_acquire);
  if (link == nullptr) {
    auto made = std::make_unique<ThreadLink>(members_[first], members_[second], parking_of(from),
                                             parking_of(to));
    if (place.compare_exchange_strong(link, made.get(), std::memory_order_acq_rel)) {
      link = made.release();
    }
  }
  return *link;
}

ThreadGroup& ThreadGroup::group(std::span<const int> ranks, int tag, int caller) {
  const std::lock_guard lock(groups_mutex_);
  Calls& calls = groups_[{std::vector<int>(ranks.begin(), ranks.end()), tag}];
  calls.made.resize(ranks.size());
  const std::size_t call = calls.made[static_cast<std::size_t>(caller)]++;
  if (call == calls.groups.size()) {
    std::vector<int> members;
    for (const int rank : ranks) {
      members.push_back(members_[static_cast<std::size_t>(rank)]);
    }
    calls.groups.push_back(std::make_unique<ThreadGroup>(std::move(members), *parking_));
  }
  return *calls.groups[call];
}

ThreadWorldState::ThreadWorldState(int size, CollectiveAlgorithm sums)
    : algorithm(sums), parking(parking_places(size)), all(all_ranks(size), parking) {}

void ThreadWorldState::abort() noexcept {
  if (!is_aborted.exchange(true)) {
    for (WaitSlot& place : parking) {
      place.wake();
    }
  }
}

}  // namespace ptdp
