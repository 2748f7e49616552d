// A lower bound of the slowest rank's time: how fast it could be with the layers in any order. The
// search for a partition need not look below it.
#include <algorithm>
#include <map>
#include <set>

#include "cost_model/partition/layer_ticks.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostSums = 20'000;
constexpr std::size_t kMostKinds = 5;  // two kinds of layers or three, and the ends
constexpr std::size_t kMostLoads = 20'000;
constexpr std::size_t kMostPairs = 1'000'000;  // pairs of a load and what a rank takes off it

/// Layers that take equally long, and how many there are.
struct StageKind {
  std::int64_t time = 0;
  int count = 0;
};

std::vector<StageKind> kinds_of(const LayerTicks& ticks) {
  std::map<std::int64_t, int> counts;
  for (int layer = 0; layer < ticks.num_layers(); ++layer) {
    ++counts[ticks.time[layer + 1] - ticks.time[layer]];
  }
  counts.erase(0);
  std::vector<StageKind> kinds;
  kinds.reserve(counts.size());
  for (const auto& [time, count] : counts) {
    kinds.push_back({time, count});
  }
  return kinds;
}

/// Returns the sums that layers can have from `low` to `high`, ascending; empty when there are too
/// many.
std::vector<std::int64_t> sums_between(const std::vector<StageKind>& kinds, std::int64_t low,
                                       std::int64_t high) {
  std::set<std::int64_t> sums = {0};
  for (const StageKind& kind : kinds) {
    for (const std::int64_t sum : std::vector<std::int64_t>(sums.begin(), sums.end())) {
      for (int i = 1; i <= kind.count && kind.time <= (high - sum) / i; ++i) {
        sums.insert(sum + i * kind.time);
      }
    }
    if (sums.size() > kMostSums) {
      return {};
    }
  }
  return {sums.lower_bound(low), sums.end()};
}

/// Packs layers of few kinds into ranks, in any order. A load is a count of layers of each kind,
/// numbered in mixed radix.
class Packing {
 public:
  explicit Packing(std::vector<StageKind> kinds) : kinds_(std::move(kinds)) {
    for (const StageKind& kind : kinds_) {
      strides_.push_back(num_loads_);
      num_loads_ *= static_cast<std::size_t>(kind.count) + 1;
      if (num_loads_ > kMostLoads) {
        return;
      }
    }
  }
  /// Whether the loads are few enough to tabulate; if not, ranks_needed() must not be called.
  [[nodiscard]] bool has_few_loads() const { return num_loads_ <= kMostLoads; }

  /// Returns how many ranks it takes to hold all layers with no rank above `most`. `most` must be
  /// at least the longest layer. Returns 0 when that takes too long to tell.
  [[nodiscard]] std::size_t ranks_needed(std::int64_t most) const {
    const std::vector<std::size_t> full = full_loads(most);
    if (full.size() * num_loads_ > kMostPairs) {
      return 0;
    }
    std::vector<std::size_t> ranks(num_loads_, 0);
    for (std::size_t load = 1; load < num_loads_; ++load) {
      ranks[load] = num_loads_;
      for (const std::size_t rank : full) {
        ranks[load] = std::min(ranks[load], ranks[rest(load, rank)] + 1);
      }
    }
    return ranks.back();
  }

 private:
  [[nodiscard]] int count_of(std::size_t load, std::size_t kind) const {
    return static_cast<int>(load / strides_[kind] %
                            (static_cast<std::size_t>(kinds_[kind].count) + 1));
  }
  [[nodiscard]] std::int64_t time_of(std::size_t load) const {
    std::int64_t time = 0;
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      time += count_of(load, kind) * kinds_[kind].time;
    }
    return time;
  }
  /// Returns the loads of one rank that are within `most` and to which nothing can be added.
  [[nodiscard]] std::vector<std::size_t> full_loads(std::int64_t most) const {
    std::vector<std::size_t> result;
    for (std::size_t load = 0; load < num_loads_; ++load) {
      const std::int64_t time = time_of(load);
      bool is_full = time <= most;
      for (std::size_t kind = 0; kind < kinds_.size() && is_full; ++kind) {
        is_full = count_of(load, kind) == kinds_[kind].count || time + kinds_[kind].time > most;
      }
      if (is_full) {
        result.push_back(load);
      }
    }
    return result;
  }
  /// Returns what is left of `load` after a rank has taken all that it can of the load `rank`.
  [[nodiscard]] std::size_t rest(std::size_t load, std::size_t rank) const {
    std::size_t result = 0;
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      result += strides_[kind] * std::max(count_of(load, kind) - count_of(rank, kind), 0);
    }
    return result;
  }

  std::vector<StageKind> kinds_;
  std::vector<std::size_t> strides_;
  std::size_t num_loads_ = 1;
};

}  // namespace

std::int64_t rank_time_bound(const LayerTicks& ticks, int ranks, std::int64_t low,
                             std::int64_t high) {
  const std::vector<StageKind> kinds = kinds_of(ticks);
  if (kinds.size() > kMostKinds) {
    return low;
  }
  const std::vector<std::int64_t> sums = sums_between(kinds, low, high);
  if (sums.empty()) {
    return low;
  }
  const Packing packing(kinds);
  if (!packing.has_few_loads()) {
    return sums.front();
  }
  return *std::partition_point(sums.begin(), sums.end() - 1, [&](std::int64_t most) {
    return packing.ranks_needed(most) > static_cast<std::size_t>(ranks);
  });
}

}  // namespace ptdp
