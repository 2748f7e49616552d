// A queue of future events that knows which comes next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace ptdp {

/// Keeps a time for each of a fixed number of ids, and finds the earliest. Among equal times the
/// lowest id comes first.
///
/// It is a tree of minima: each node holds the earliest time of the four below it. Setting a time
/// only compares on its way to the root, and ends once nothing changes. The minima need no
/// branches.
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

  /// Returns the id with the earliest time; the lowest of equals.
  [[nodiscard]] int next() const {
    const double earliest = next_time();
    std::size_t node = lowest_at(earliest, 0);
    while (node < first_leaf_) {
      node = lowest_at(earliest, first_child(node));
    }
    return static_cast<int>(node - first_leaf_);
  }
  /// Returns the earliest time [s]; kNever if there is none.
  [[nodiscard]] double next_time() const { return earliest_of(0); }

  /// Sets the time of an id [s]; kNever for none.
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

  /// Returns the earliest time of four siblings.
  [[nodiscard]] double earliest_of(std::size_t first) const {
    return std::min(std::min(times_[first], times_[first + 1]),
                    std::min(times_[first + 2], times_[first + 3]));
  }
  /// Returns the first of four siblings that has the time, which one of them must have.
  [[nodiscard]] std::size_t lowest_at(double time, std::size_t first) const {
    std::size_t lowest = first + 3;
    lowest = times_[first + 2] == time ? first + 2 : lowest;
    lowest = times_[first + 1] == time ? first + 1 : lowest;
    return times_[first] == time ? first : lowest;
  }

  std::size_t first_leaf_ = 0;
  /// Times of the four nodes below the root, then of the 16 below those, and so on.
  std::vector<double> times_;
};

}  // namespace ptdp
