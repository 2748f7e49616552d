// Tests of samples of candidates, against a search that costs everything.
#include "planner/search/candidate_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "planner/search/exhaustive_search.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

constexpr std::int64_t kAll = 1'000'000;

/// A job whose stages may differ in their layers, with some thousand candidates.
class CandidateSample : public testing::Test {
 protected:
  const Scenario scenario = shipped_scenario("gpt2-1.5b", "dgx-h100", "megatron-core-2025", 48);
  const SearchOptions options{.gpus = 12, .space = {.vpp = IntegerRanges(1)}};
  const std::vector<Candidate> all = exhaustive_search(scenario, options);
};

TEST_F(CandidateSample, OfEverythingHasEveryCandidateThatCanRun) {
  const std::vector<ParallelConfig> sample = sample_candidates(
      scenario, options, {.all = kAll, .looked_at = kAll, .kept = all.size() + 1});
  std::set<ParallelConfig> expected;
  for (const Candidate& candidate : all) {
    expected.insert(candidate.config);
  }
  EXPECT_EQ(std::set<ParallelConfig>(sample.begin(), sample.end()), expected);
}

TEST_F(CandidateSample, OfSomeKeepsSoManyWithoutRepeatingAny) {
  const SampleSize size{.all = kAll, .looked_at = kAll, .kept = 50};
  const std::vector<ParallelConfig> sample = sample_candidates(scenario, options, size);
  EXPECT_EQ(std::set<ParallelConfig>(sample.begin(), sample.end()).size(), 50U);
  EXPECT_EQ(sample_candidates(scenario, options, size), sample);
  const std::vector<ParallelConfig> thinner = sample_candidates(
      scenario, options, {.all = kAll, .looked_at = kAll / 10, .kept = all.size()});
  EXPECT_LT(thinner.size(), all.size() / 5);
  EXPECT_GT(thinner.size(), all.size() / 20);
}

TEST_F(CandidateSample, OfSplitsHasTheFastestOfEach) {
  std::map<std::pair<int, int>, double> fastest;
  for (const Candidate& candidate : all) {
    const auto [entry, is_new] = fastest.emplace(
        std::pair(candidate.config.tp, candidate.config.pp), candidate.time.value());
    entry->second = std::min(entry->second, candidate.time.value());
  }
  const BestOfSplits splits = best_of_splits(scenario, options, kAll);
  EXPECT_EQ(splits.num_searched, splits.num_splits);
  ASSERT_EQ(splits.best.size(), fastest.size());
  for (const Candidate& best : splits.best) {
    EXPECT_DOUBLE_EQ(best.time.value(), fastest.at({best.config.tp, best.config.pp}));
  }
  const BestOfSplits few = best_of_splits(scenario, options, 3);
  EXPECT_EQ(few.num_searched, 3);
  EXPECT_EQ(few.num_splits, splits.num_splits);
}

}  // namespace
}  // namespace ptdp
