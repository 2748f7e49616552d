// Cuts a list of unlike layers into several virtual stages per rank. An exhaustive search over the
// positions that the ranks' virtual stages have reached looks at each set of positions once.
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <string>
#include <unordered_set>

#include "cost_model/error.h"
#include "cost_model/partition/layer_ticks.h"

namespace ptdp {
namespace {

constexpr int kMostSearchedLayers = 2048;  // bounds the recursion, and positions to 16 bits
constexpr std::int64_t kNoCut = std::numeric_limits<std::int64_t>::max();

/// Largest times that a partition may have, in ticks; one beyond them is refused.
struct Caps {
  std::int64_t rank = kNoCut;   ///< Most time of a rank.
  std::int64_t stage = kNoCut;  ///< Most time of a virtual stage.
};

/// Range of layer counts, both ends inclusive; empty where `most` < `least`.
struct Counts {
  int least = 0;
  int most = 0;
};

/// One chunk's pass through the ranks, down in model order or, in the second half of a V, up
/// against it.
struct Loop {
  int at = 0;   ///< Position where the next rank's virtual stage begins (up: ends).
  int end = 0;  ///< Position where the pass ends. In a V both passes end where they meet.
};

/// The search for the partition that partition_layers() describes for vpp > 1 and unlike layers.
class SearchedCut {
 public:
  SearchedCut(const LayerTicks& ticks, const PartitionRequest& request)
      : ticks_(ticks), request_(request), is_v_(request.placement == StagePlacement::kV) {}

  std::optional<std::vector<int>> run() {
    if (ticks_.num_layers() > kMostSearchedLayers) {
      refuse();
    }
    auto best = minimize(&Caps::rank, divided_up(ticks_.total(), request_.pp));
    if (is_exhausted()) {
      refuse();
    }
    if (best) {
      // The proof that the longest virtual stage is as short as possible may take longer than it is
      // worth, so it gets a tenth of the steps. What was found by then will do.
      most_steps_ = std::min(most_steps_, steps_ + request_.most_steps / 10);
      const auto of_stages = cut_contiguously(ticks_.without_memory(), request_.pp * request_.vpp);
      if (auto shorter = minimize(&Caps::stage, value_of(*of_stages, &Caps::stage))) {
        best = std::move(shorter);
      }
    }
    return best;
  }

 private:
  [[noreturn]] void refuse() const {
    throw Error("--vpp: an exact partition of " + std::to_string(ticks_.num_layers()) +
                " unlike layers into " + std::to_string(request_.pp) + " times " +
                std::to_string(request_.vpp) +
                " stages takes too long; expected a smaller --vpp, fewer layers, or equal ones "
                "between the first and the last");
  }

  [[nodiscard]] bool is_exhausted() const { return steps_ > most_steps_; }

  /// Returns the partition with the least value under `cap`, or nullopt when there is none. The
  /// value is at least `low`. `cap` is left at the least value; the other cap stays as it is.
  std::optional<std::vector<int>> minimize(std::int64_t Caps::*cap, std::int64_t low) {
    caps_.*cap = kNoCut;
    auto best = find();
    if (!best) {
      return std::nullopt;
    }
    std::int64_t high = value_of(*best, cap);
    const int holders = cap == &Caps::rank ? request_.pp : request_.pp * request_.vpp;
    low = rank_time_bound(ticks_, holders, std::max(low, ticks_.longest()), high);
    // Tries the bound itself first: with few kinds of layers it is mostly reached.
    for (std::int64_t step = 0; low < high; step = (high - low) / 2) {
      caps_.*cap = low + step;
      next_ = kNoCut;
      auto found = find();
      if (is_exhausted()) {
        break;
      }
      if (found) {
        best = std::move(found);
        high = value_of(*best, cap);
      } else {
        // Every smaller cap than the least one that was exceeded refuses the same.
        low = std::max(caps_.*cap + 1, std::min(next_, high));
      }
    }
    caps_.*cap = high;
    return best;
  }

  /// Returns the largest time of a rank or of a virtual stage, whichever `cap` limits.
  [[nodiscard]] std::int64_t value_of(const std::vector<int>& sizes,
                                      std::int64_t Caps::*cap) const {
    std::vector<std::int64_t> ranks(static_cast<std::size_t>(request_.pp), 0);
    std::int64_t longest_stage = 0;
    int start = 0;
    for (std::size_t stage = 0; stage < sizes.size(); ++stage) {
      const std::int64_t time = ticks_.time[start + sizes[stage]] - ticks_.time[start];
      ranks[rank_of_stage(request_, static_cast<int>(stage))] += time;
      longest_stage = std::max(longest_stage, time);
      start += sizes[stage];
    }
    return cap == &Caps::stage ? longest_stage : *std::max_element(ranks.begin(), ranks.end());
  }

  /// Returns any partition within the caps, or nullopt when there is none or the steps are used up.
  std::optional<std::vector<int>> find() {
    const int num_loops = request_.vpp;
    loops_.assign(static_cast<std::size_t>(num_loops), {});
    cuts_.assign(static_cast<std::size_t>(request_.pp) * num_loops, 0);
    loops_.back().end = ticks_.num_layers();
    if (is_v_) {
      loops_[1].at = ticks_.num_layers();
      refused_.clear();
      return place_rank(0, ticks_.total(), ticks_.memory.back()) ? std::optional(sizes())
                                                                 : std::nullopt;
    }
    return begin_loop(1) ? std::optional(sizes()) : std::nullopt;
  }

  // NOLINTBEGIN(misc-no-recursion): no deeper than there are virtual stages

  /// Chooses where the passes from `loop` on begin, an equal share of the layers first, and places
  /// all ranks. Returns whether that succeeded.
  bool begin_loop(int loop) {
    if (loop == request_.vpp) {
      refused_.clear();
      return place_rank(0, ticks_.total(), ticks_.memory.back());
    }
    const int first = loops_[loop - 1].at + request_.pp;
    const int last = ticks_.num_layers() - (request_.vpp - loop) * request_.pp;
    const std::int64_t share = ticks_.total() / request_.vpp * loop;
    return from_middle({first, last}, position_of(share), [&](int start) {
      loops_[loop].at = loops_[loop - 1].end = start;
      return begin_loop(loop + 1);
    });
  }

  /// Tries all counts, beginning at `middle` and going outwards. Returns true once `attempt` does,
  /// false when all counts failed or the steps are used up.
  template <class Attempt>
  bool from_middle(Counts counts, int middle, const Attempt& attempt) {
    middle = std::clamp(middle, counts.least, std::max(counts.least, counts.most));
    for (int below = middle, above = middle + 1; below >= counts.least || above <= counts.most;
         --below, ++above) {
      if (++steps_ > most_steps_) {
        return false;
      }
      if ((below >= counts.least && below <= counts.most && attempt(below)) ||
          (above <= counts.most && attempt(above))) {
        return true;
      }
    }
    return false;
  }

  /// Returns the first position before which the layers take `time` or more.
  [[nodiscard]] int position_of(std::int64_t time) const {
    return static_cast<int>(std::lower_bound(ticks_.time.begin(), ticks_.time.end(), time) -
                            ticks_.time.begin());
  }

  /// Places `rank` and all ranks behind it, which take `time` and `memory` together. Returns
  /// whether they fit within the caps and the memory limit.
  bool place_rank(int rank, std::int64_t time, std::int64_t memory) {
    if (rank == request_.pp) {
      return true;
    }
    const std::int64_t needed = divided_up(time, request_.pp - rank);
    if (needed > caps_.rank) {
      next_ = std::min(next_, needed);
      return false;
    }
    if (divided_up(memory, request_.pp - rank) > ticks_.memory_limit) {
      return false;
    }
    std::u16string state(1, static_cast<char16_t>(rank));
    for (const Loop& loop : loops_) {
      state.push_back(static_cast<char16_t>(loop.at));
    }
    if (refused_.contains(state)) {
      return false;
    }
    if (place_stage(rank, 0, {.time = time, .memory = memory})) {
      return true;
    }
    refused_.insert(std::move(state));
    return false;
  }

  /// What the virtual stages of a rank take so far, and what there is for this rank and those
  /// behind it.
  struct Progress {
    std::int64_t time = 0;  ///< Time of all layers for this rank and those behind it.
    /// Memory of all layers for this rank and those behind it, with nothing in flight [B].
    std::int64_t memory = 0;
    std::int64_t used_time = 0;    ///< Time of this rank's virtual stages placed so far.
    std::int64_t used_memory = 0;  ///< Memory of this rank's virtual stages placed so far [B].
    std::int64_t used_in_all = 0;  ///< That memory with what microbatches in flight keep [B].
  };

  /// Chooses how many layers the virtual stage of `rank` in `loop` has, and goes on with the next
  /// one. Returns whether all that follow could be placed.
  bool place_stage(int rank, int loop, const Progress& progress) {
    if (loop == request_.vpp) {
      return place_rank(rank + 1, progress.time - progress.used_time,
                        progress.memory - progress.used_memory);
    }
    const Counts counts = counts_within_caps(rank, loop, progress);
    // Together the virtual stages that are left should have what the rank still needs for its
    // share.
    const std::int64_t share =
        (progress.time / (request_.pp - rank) - progress.used_time) / (request_.vpp - loop);
    const int middle = first_of(counts, [&](int count) { return time_of(loop, count) >= share; });
    const int begin = loops_[loop].at;
    const bool is_placed = from_middle(counts, middle, [&](int count) {
      Progress after = progress;
      after.used_time += time_of(loop, count);
      const auto [first, end] = std::minmax({begin, end_of(loop, count)});
      after.used_memory += ticks_.memory[end] - ticks_.memory[first];
      after.used_in_all += ticks_.memory_of(rank, first, end);
      if (after.used_in_all > ticks_.memory_limit) {
        return false;
      }
      loops_[loop].at = end_of(loop, count);
      cuts_[static_cast<std::size_t>(loop) * request_.pp + rank] = count;
      if (place_stage(rank, loop + 1, after)) {
        return true;
      }
      loops_[loop].at = begin;
      return false;
    });
    return is_placed;
  }

  // NOLINTEND(misc-no-recursion)

  /// Returns how many layers the virtual stage of `rank` in `loop` may have, so that it and each
  /// one behind it have one or more.
  [[nodiscard]] Counts possible_counts(int rank, int loop) const {
    const int behind = request_.pp - 1 - rank;
    const Loop& here = loops_[loop];
    if (is_v_ && loop == 0) {
      return {1, loops_[1].at - 1 - 2 * behind - here.at};
    }
    const int most = is_v_ ? here.at - loops_[0].at - 2 * behind : here.end - behind - here.at;
    return {behind == 0 ? most : 1, most};
  }

  /// Returns those possible_counts() that keep to the caps and leave no more than the ranks behind
  /// may take.
  Counts counts_within_caps(int rank, int loop, const Progress& progress) {
    const int behind = request_.pp - 1 - rank;
    Counts counts = possible_counts(rank, loop);
    const int too_many = first_of(counts, [&](int count) {
      const std::int64_t time = time_of(loop, count);
      return time > caps_.stage || progress.used_time + time > caps_.rank;
    });
    if (too_many <= counts.most) {
      const std::int64_t time = time_of(loop, too_many);
      next_ = std::min(next_, time > caps_.stage ? time : progress.used_time + time);
      counts.most = too_many - 1;
    }
    if (loop == request_.vpp - 1 && behind > 0) {
      const auto left_each = [&](int count) {
        return divided_up(progress.time - progress.used_time - time_of(loop, count), behind);
      };
      const int enough =
          first_of(counts, [&](int count) { return left_each(count) <= caps_.rank; });
      if (enough > counts.least) {
        next_ = std::min(next_, left_each(enough - 1));
        counts.least = enough;
      }
    }
    return counts;
  }

  /// Returns the least count that satisfies `is_satisfied`, which must hold for all greater ones
  /// too; most + 1 if none does.
  template <class Predicate>
  static int first_of(Counts counts, const Predicate& is_satisfied) {
    int low = counts.least;
    int high = std::max(counts.most + 1, low);
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (is_satisfied(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  /// Returns where a virtual stage of `count` layers in `loop` ends.
  [[nodiscard]] int end_of(int loop, int count) const {
    return is_v_ && loop == 1 ? loops_[loop].at - count : loops_[loop].at + count;
  }
  [[nodiscard]] std::int64_t time_of(int loop, int count) const {
    return std::abs(ticks_.time[end_of(loop, count)] - ticks_.time[loops_[loop].at]);
  }

  /// Returns the sizes of the virtual stages as they were placed, in model order.
  [[nodiscard]] std::vector<int> sizes() const {
    std::vector<int> result = cuts_;
    if (is_v_) {
      std::reverse(result.begin() + request_.pp, result.end());
    }
    return result;
  }

  const LayerTicks& ticks_;
  const PartitionRequest& request_;
  bool is_v_;
  Caps caps_;
  std::vector<Loop> loops_;
  std::vector<int> cuts_;  // layers of each rank in each loop
  std::unordered_set<std::u16string> refused_;
  std::int64_t next_ = kNoCut;  // least value that a cap needs to allow more than it did
  std::int64_t steps_ = 0;
  std::int64_t most_steps_ = request_.most_steps;
};

}  // namespace

std::optional<std::vector<int>> cut_by_search(const LayerTicks& ticks,
                                              const PartitionRequest& request) {
  return SearchedCut(ticks, request).run();
}

}  // namespace ptdp
