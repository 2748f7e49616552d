// What the ends of a group of threads share: the links between its ranks, and its groups.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "runtime/transport/communicator.h"
#include "runtime/transport/threads/thread_link.h"
#include "runtime/transport/threads/wait_slot.h"

namespace ptdp {

/// Links and groups come into being at their first use, by any thread. A group lives as long as the
/// one that it was made of: messages may be under way after an end is gone.
class ThreadGroup {
 public:
  /// Links with the same ends, but apart.
  static constexpr std::size_t kNumChannels = 2;

  /// `members` are ranks of the world, each with its place of `parking`, which outlives the group.
  ThreadGroup(std::vector<int> members, std::deque<WaitSlot>& parking);
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  ThreadGroup(ThreadGroup&&) = delete;
  ThreadGroup& operator=(ThreadGroup&&) = delete;
  ~ThreadGroup();

  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] WaitSlot& parking_of(int rank) const;
  [[nodiscard]] ThreadLink& link(int from, int to, std::size_t channel);
  /// What rank `ranks[caller]` of this group gets when it asks for the group of these ranks: its
  /// k-th call with these arguments meets the k-th of the others.
  [[nodiscard]] ThreadGroup& group(std::span<const int> ranks, int tag, int caller);

 private:
  struct Calls {
    std::vector<std::size_t> made;  ///< By each member.
    std::vector<std::unique_ptr<ThreadGroup>> groups;
  };

  std::vector<int> members_;
  std::deque<WaitSlot>* parking_;
  std::vector<std::atomic<ThreadLink*>> links_;  ///< [channel][from][to]; owned.
  std::mutex groups_mutex_;
  std::map<std::pair<std::vector<int>, int>, Calls> groups_;  ///< By ranks and tag.
};

/// What all threads share.
struct ThreadWorldState {
  ThreadWorldState(int size, CollectiveAlgorithm sums);
  /// As ThreadWorld::abort.
  void abort() noexcept;

  CollectiveAlgorithm algorithm;
  std::deque<WaitSlot> parking;  ///< By rank; a deque, since they do not move.
  std::atomic<bool> is_aborted = false;
  ThreadGroup all;
};

}  // namespace ptdp
