// Cuts a list of layers into as many parts as there are ranks: bisection for the slowest part, a
// dynamic program for the rest.
#include <algorithm>
#include <cassert>
#include <cstddef>

#include "cost_model/partition/layer_ticks.h"

namespace ptdp {
namespace {

/// Returns the first number from `first` on for which `holds` is false, at most `last`. It must be
/// true before and false from there on.
template <class Holds>
int first_without(int first, int last, const Holds& holds) {
  while (first < last) {
    const int middle = first + (last - first) / 2;
    if (holds(middle)) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

__extension__ using Wide = __int128;  // the square of a sum of ticks has up to 124 bits

constexpr std::int64_t kLargestWindowTable = std::int64_t{1} << 25;

/// Range of positions that a cut may have, both ends inclusive.
struct Window {
  int first = 0;
  int last = 0;

  [[nodiscard]] int size() const { return last - first + 1; }
};

/// The search for the contiguous cut that partition_layers() describes for vpp = 1.
class ContiguousCut {
 public:
  ContiguousCut(const LayerTicks& ticks, int parts) : ticks_(ticks), parts_(parts) {}

  std::optional<std::vector<int>> run() {
    cap_ = ticks_.total();
    of_several_ = cap_;
    if (!is_feasible()) {
      return std::nullopt;
    }
    minimize(cap_, std::max(ticks_.longest(), divided_up(ticks_.total(), parts_)));
    find_windows();
    if (table_size() > kLargestWindowTable) {
      // A layer that outweighs whole parts leaves all others free; these are evened out apart.
      of_several_ = cap_;
      minimize(of_several_, 0);
      find_windows();
    }
    return sizes_of(table_size() <= kLargestWindowTable ? least_squares() : nearest_to_equal());
  }

 private:
  [[nodiscard]] int num_layers() const { return ticks_.num_layers(); }

  /// Lowers `cap`, one of this object's caps, to the least feasible value from `low` on.
  void minimize(std::int64_t& cap, std::int64_t low) {
    std::int64_t high = cap;
    while (low < high) {
      cap = low + (high - low) / 2;
      if (is_feasible()) {
        high = cap;
      } else {
        low = cap + 1;
      }
    }
    cap = high;
  }

  [[nodiscard]] std::int64_t table_size() const {
    std::int64_t size = 0;
    for (const Window& window : windows_) {
      size += window.size();
    }
    return size;
  }

  /// Returns the furthest end of part `part` if it starts before layer `start`; `start` itself
  /// where not even that layer fits.
  [[nodiscard]] int furthest_end(int part, int start) const {
    const auto within = [start](const std::vector<std::int64_t>& sums, std::int64_t most) {
      const std::int64_t bound =
          most > sums.back() - sums[start] ? sums.back() : sums[start] + most;
      return static_cast<int>(std::upper_bound(sums.begin() + start, sums.end(), bound) -
                              sums.begin()) -
             1;
    };
    const int of_several = within(ticks_.time, std::min(cap_, of_several_));
    const int of_one = std::min(within(ticks_.time, cap_), start + 1);
    const int by_time = std::max(of_several, of_one);
    return first_without(start + 1, by_time + 1, [&](int end) { return fits(part, start, end); }) -
           1;
  }

  /// Returns the earliest start of part `part` if it ends before layer `end`.
  [[nodiscard]] int earliest_start(int part, int end) const {
    const auto within = [end](const std::vector<std::int64_t>& sums, std::int64_t most) {
      return static_cast<int>(std::lower_bound(sums.begin(), sums.begin() + end, sums[end] - most) -
                              sums.begin());
    };
    const int of_several = within(ticks_.time, std::min(cap_, of_several_));
    const int of_one = std::max(within(ticks_.time, cap_), end - 1);
    return first_without(std::min(of_several, of_one), end,
                         [&](int start) { return !fits(part, start, end); });
  }

  [[nodiscard]] bool fits(int part, int start, int end) const {
    return ticks_.memory_of(part, start, end) <= ticks_.memory_limit;
  }

  /// Whether parts within the caps, each as long as it may be, reach the last layer. A layer that
  /// a part cannot hold may fit a later one, where fewer microbatches are in flight. The parts
  /// before it are then made shorter, so that each has a layer.
  [[nodiscard]] bool is_feasible() const {
    int end = 0;
    for (int part = 0; part < parts_; ++part) {
      end = std::min(furthest_end(part, end), num_layers() - (parts_ - 1 - part));
      if (end <= part) {
        return false;
      }
    }
    return end == num_layers();
  }

  /// Finds where each cut can be: its bounds are those of parts as long as they may be, from the
  /// front and from the back. The parts before it can reach all positions between, since a part may
  /// always be shorter, and what fits a part fits the later ones.
  void find_windows() {
    windows_.assign(static_cast<std::size_t>(parts_) + 1, {});
    for (int cut = 1; cut <= parts_; ++cut) {
      windows_[cut].last =
          std::min(furthest_end(cut - 1, windows_[cut - 1].last), num_layers() - (parts_ - cut));
    }
    windows_[parts_].first = num_layers();
    for (int cut = parts_ - 1; cut > 0; --cut) {
      windows_[cut].first = std::max(earliest_start(cut, windows_[cut + 1].first), cut);
    }
  }

  [[nodiscard]] Wide square(int start, int end) const {
    const Wide time = ticks_.time[end] - ticks_.time[start];
    return time * time;
  }

  /// Returns the cuts with the least sum of squares of the parts' times, and of equal ones the
  /// earliest. Earliest for all cuts at once exists, since squares of sums satisfy the quadrangle
  /// inequality.
  std::vector<int> least_squares() {
    before_.assign(1, 0);
    std::vector<std::vector<int>> chosen(static_cast<std::size_t>(parts_) + 1);
    for (int cut = 1; cut <= parts_; ++cut) {
      const auto size = static_cast<std::size_t>(windows_[cut].size());
      after_.assign(size, 0);
      chosen_.assign(size, 0);
      choose(cut, windows_[cut], windows_[cut - 1]);
      chosen[cut].swap(chosen_);
      before_.swap(after_);
    }
    std::vector<int> cuts(static_cast<std::size_t>(parts_) + 1, num_layers());
    for (int cut = parts_; cut > 0; --cut) {
      cuts[cut - 1] = chosen[cut][cuts[cut] - windows_[cut].first];
    }
    return cuts;
  }

  /// Finds the best position of cut `cut` − 1 for each position of `cut` in `ends`. All best
  /// positions lie in `starts`. Divide and conquer, since later ends have later starts.
  // NOLINTNEXTLINE(misc-no-recursion): as deep as the logarithm of the number of layers
  void choose(int cut, Window ends, Window starts) {
    if (ends.first > ends.last) {
      return;
    }
    const int end = ends.first + (ends.last - ends.first) / 2;
    const int first = std::max(starts.first, earliest_start(cut - 1, end));
    const int last = std::min(starts.last, end - 1);
    assert(first <= last);
    int best = first;
    Wide least = 0;
    for (int start = first; start <= last; ++start) {
      const Wide sum = before_[start - windows_[cut - 1].first] + square(start, end);
      if (start == first || sum < least) {
        best = start;
        least = sum;
      }
    }
    after_[end - windows_[cut].first] = least;
    chosen_[end - windows_[cut].first] = best;
    choose(cut, {ends.first, end - 1}, {starts.first, best});
    choose(cut, {end + 1, ends.last}, {best, starts.last});
  }

  /// Returns cuts of which each in turn, from the last on, is as close to an equal share of what is
  /// left as the windows allow.
  [[nodiscard]] std::vector<int> nearest_to_equal() const {
    std::vector<int> cuts(static_cast<std::size_t>(parts_) + 1, 0);
    cuts.back() = num_layers();
    for (int cut = parts_ - 1; cut > 0; --cut) {
      const int end = cuts[cut + 1];
      const int first = std::max(windows_[cut].first, earliest_start(cut, end));
      const int last = std::min(windows_[cut].last, end - 1);
      const std::int64_t share = ticks_.time[end] - ticks_.time[end] / (cut + 1);
      const auto begin = ticks_.time.begin();
      const auto above = std::lower_bound(begin + first, begin + last, share) - begin;
      const bool is_nearer_before =
          above > first && share - ticks_.time[above - 1] <= ticks_.time[above] - share;
      cuts[cut] = static_cast<int>(is_nearer_before ? above - 1 : above);
    }
    return cuts;
  }

  [[nodiscard]] static std::vector<int> sizes_of(const std::vector<int>& cuts) {
    std::vector<int> sizes;
    for (std::size_t cut = 1; cut < cuts.size(); ++cut) {
      sizes.push_back(cuts[cut] - cuts[cut - 1]);
    }
    return sizes;
  }

  const LayerTicks& ticks_;
  int parts_;
  std::int64_t cap_ = 0;         // most time of a part
  std::int64_t of_several_ = 0;  // most time of a part with two layers or more
  std::vector<Window> windows_;  // by cut: 0 is the start, parts_ the end
  std::vector<Wide> before_;     // least sum of squares up to each position of cut − 1
  std::vector<Wide> after_;      // least sum of squares up to each position of the cut
  std::vector<int> chosen_;      // best position of cut − 1 for each position of the cut
};

}  // namespace

std::optional<std::vector<int>> cut_contiguously(const LayerTicks& ticks, int parts) {
  return ContiguousCut(ticks, parts).run();
}

}  // namespace ptdp
