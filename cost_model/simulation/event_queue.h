// The next of the things that are going to happen.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace ptdp {

/// A time for each of a fixed number of ids, and which is the earliest: a tournament, whose rounds
/// are played again from the id whose time is set. No entry is ever outdated. Among equal times the
/// lowest id comes first.
class EventQueue {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  explicit EventQueue(int num_ids) : times_(num_ids, kNever) {
    while (num_leaves_ < times_.size()) {
      num_leaves_ *= 2;
    }
    times_.resize(num_leaves_, kNever);
    winners_.resize(2 * num_leaves_);
    for (std::size_t i = 0; i < num_leaves_; ++i) {
      winners_[num_leaves_ + i] = static_cast<int>(i);
    }
    for (std::size_t node = num_leaves_ - 1; node > 0; --node) {
      winners_[node] = winners_[2 * node];
    }
  }

  [[nodiscard]] int next() const { return winners_[1]; }
  [[nodiscard]] double next_time() const { return times_[winners_[1]]; }

  void set(int id, double time) {
    if (times_[id] == time) {
      return;
    }
    times_[id] = time;
    for (std::size_t node = (num_leaves_ + id) / 2; node > 0; node /= 2) {
      const int left = winners_[2 * node];
      const int right = winners_[2 * node + 1];
      const int winner = times_[right] < times_[left] ? right : left;
      if (winners_[node] == winner && winner != id) {
        return;
      }
      winners_[node] = winner;
    }
  }

 private:
  std::size_t num_leaves_ = 1;
  std::vector<double> times_;
  std::vector<int> winners_;  ///< Of each subtree: the root at 1, the leaves at the end.
};

}  // namespace ptdp
