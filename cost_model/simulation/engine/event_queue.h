// The next of the things that are going to happen.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace ptdp {

/// A time for each of a fixed number of ids, and which is the earliest. Among equal times the
/// lowest id comes first.
///
/// A tree of minima: each node is the earliest of the four below it. A time that is set is compared
/// on its way to the root alone, which ends where nothing changes; the minima need no branches.
class EventQueue {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  explicit EventQueue(int num_ids) {
    std::size_t num_leaves = kFanOut;
    while (num_leaves < static_cast<std::size_t>(num_ids)) {
      first_leaf_ += num_leaves;
      num_leaves *= kFanOut;
    }
    times_.resize(first_leaf_ + num_leaves, kNever);
  }

  [[nodiscard]] int next() const {
    const double earliest = next_time();
    std::size_t node = lowest_at(earliest, 0);
    while (node < first_leaf_) {
      node = lowest_at(earliest, first_child(node));
    }
    return static_cast<int>(node - first_leaf_);
  }
  [[nodiscard]] double next_time() const { return earliest_of(0); }

  void set(int id, double time) {
    std::size_t node = first_leaf_ + static_cast<std::size_t>(id);
    while (times_[node] != time) {
      times_[node] = time;
      if (node < kFanOut) {
        return;
      }
      node = node / kFanOut - 1;
      time = earliest_of(first_child(node));
    }
  }

 private:
  static constexpr std::size_t kFanOut = 4;

  static std::size_t first_child(std::size_t node) { return kFanOut * (node + 1); }

  /// The earliest time of four siblings.
  [[nodiscard]] double earliest_of(std::size_t first) const {
    return std::min(std::min(times_[first], times_[first + 1]),
                    std::min(times_[first + 2], times_[first + 3]));
  }
  /// The first of four siblings that has the time, which one of them has.
  [[nodiscard]] std::size_t lowest_at(double time, std::size_t first) const {
    std::size_t lowest = first + 3;
    lowest = times_[first + 2] == time ? first + 2 : lowest;
    lowest = times_[first + 1] == time ? first + 1 : lowest;
    return times_[first] == time ? first : lowest;
  }

  std::size_t first_leaf_ = 0;
  std::vector<double> times_;  ///< Of the four nodes below the root, of the 16 below those, ...
};

}  // namespace ptdp
