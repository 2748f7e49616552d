#include "tests/runtime/layout_sets.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "cost_model/schedule/generators/generators.h"

namespace ptdp::testing {
namespace {

constexpr int kDimensions = 8;

/// Numbers every pair of values of two dimensions: greedy choices compare millions of them.
class PairNumbers {
 public:
  [[nodiscard]] std::vector<int> of(const Layout& layout) {
    const std::array<std::string, kDimensions> values = {
        std::to_string(layout.tp),         (layout.sequence_parallel ? "sp" : ""),
        std::to_string(layout.pp),         std::to_string(layout.vpp),
        std::to_string(layout.dp),         layout.schedule,
        std::to_string(layout.zero_stage), std::to_string(static_cast<int>(layout.recompute))};
    std::vector<int> pairs;
    pairs.reserve(kDimensions * (kDimensions - 1) / 2);
    for (int i = 0; i < kDimensions; ++i) {
      for (int j = i + 1; j < kDimensions; ++j) {
        pairs.push_back(
            numbers_.try_emplace({i, values[i], j, values[j]}, static_cast<int>(numbers_.size()))
                .first->second);
      }
    }
    return pairs;
  }

 private:
  std::map<std::tuple<int, std::string, int, std::string>, int> numbers_;
};

}  // namespace

std::vector<Layout> all_layouts(const Job& job) {
  std::vector<Layout> layouts;
  for (const ScheduleTraits& generator : kSchedules) {
    for (const int tp : {1, 2, 4}) {
      for (const bool sp : {false, true}) {
        for (const int pp : {1, 2, 4}) {
          for (const int vpp : {1, 2}) {
            for (const int dp : {1, 2, 4}) {
              for (const int zero : {0, 1}) {
                for (const Recompute recompute :
                     {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
                  const Layout layout{.tp = tp,
                                      .pp = pp,
                                      .vpp = vpp,
                                      .dp = dp,
                                      .schedule = std::string(generator.name),
                                      .sequence_parallel = sp,
                                      .zero_stage = zero,
                                      .recompute = recompute};
                  if (exists(layout, job)) {
                    layouts.push_back(layout);
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  return layouts;
}

std::vector<Layout> pairwise_covering(const std::vector<Layout>& layouts) {
  PairNumbers numbers;
  std::set<int> missing;
  std::vector<std::vector<int>> pairs;
  pairs.reserve(layouts.size());
  for (const Layout& layout : layouts) {
    pairs.push_back(numbers.of(layout));
    missing.insert(pairs.back().begin(), pairs.back().end());
  }
  std::vector<Layout> chosen;
  while (!missing.empty()) {
    std::size_t best = 0;
    std::ptrdiff_t most = 0;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      const auto covered = std::count_if(pairs[i].begin(), pairs[i].end(),
                                         [&](int pair) { return missing.contains(pair); });
      if (covered > most) {
        most = covered;
        best = i;
      }
    }
    for (const int pair : pairs[best]) {
      missing.erase(pair);
    }
    chosen.push_back(layouts[best]);
  }
  return chosen;
}

}  // namespace ptdp::testing
