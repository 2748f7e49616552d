// The shared state of a group of threads: the links between its ranks, and the groups made from it.
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

/// The state that all ends of one group of threads share. Any thread may be the first to use a link
/// or a group, which creates it. A group lives as long as the group from which it was made, because
/// messages may be in flight after an end is gone.
class ThreadGroup {
 public:
  /// Number of separate links per pair of ranks, one for each kind of traffic.
  static constexpr std::size_t kNumChannels = 2;

  /// `members` are ranks of the world, each an index into `parking`, which must outlive the group.
  ThreadGroup(std::vector<int> members, std::deque<WaitSlot>& parking);
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  ThreadGroup(ThreadGroup&&) = delete;
  ThreadGroup& operator=(ThreadGroup&&) = delete;
  ~ThreadGroup();

  /// Returns the number of ranks.
  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  /// Returns the place where threads of rank `rank` of this group wait.
  [[nodiscard]] WaitSlot& parking_of(int rank) const;
  /// Returns the link from rank `from` to rank `to`, and creates it at its first use. Any thread
  /// may call it.
  [[nodiscard]] ThreadLink& link(int from, int to, std::size_t channel);
  /// Returns the group of `ranks` for rank `ranks[caller]` of this group, and creates it at its
  /// first use. The caller's k-th call with these arguments returns the same group as every other
  /// member's k-th call.
  [[nodiscard]] ThreadGroup& group(std::span<const int> ranks, int tag, int caller);

 private:
  /// The calls of group() with the same ranks and tag.
  struct Calls {
    std::vector<std::size_t> made;  ///< Number of calls by each member, indexed as in `ranks`.
    std::vector<std::unique_ptr<ThreadGroup>> groups;  ///< Groups made, by number of the call.
  };

  std::vector<int> members_;
  std::deque<WaitSlot>* parking_;
  /// Links by [channel][from][to], owned; null before their first use.
  std::vector<std::atomic<ThreadLink*>> links_;
  std::mutex groups_mutex_;
  /// Calls of group(), by ranks and tag.
  std::map<std::pair<std::vector<int>, int>, Calls> groups_;
};

/// The state that all threads of a ThreadWorld share.
struct ThreadWorldState {
  ThreadWorldState(int size, CollectiveAlgorithm sums);
  /// Marks the world as aborted and wakes all waiting threads. Any thread may call it.
  void abort() noexcept;

  CollectiveAlgorithm algorithm;
  std::deque<WaitSlot> parking;  ///< Waiting places by rank; a deque never moves them.
  std::atomic<bool> is_aborted = false;
  ThreadGroup all;  ///< The group of all ranks.
};

}  // namespace ptdp
