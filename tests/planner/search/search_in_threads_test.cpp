// Searches by several threads find what one finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "planner/constraints/constraint.h"
#include "planner/search/search.h"
#include "tests/planner/same_candidates.h"
#include "tests/planner/synchronous_schedules.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// Searches with each number of threads, and expects every bit of what one finds. Returns that.
SearchResult expect_no_trace(const Scenario& scenario, SearchOptions options,
                             const std::vector<int>& numbers_of_threads) {
  options.num_threads = 1;
  SearchResult one = search(scenario, options);
  for (const int threads : numbers_of_threads) {
    SCOPED_TRACE(threads);
    options.num_threads = threads;
    const SearchResult several = search(scenario, options);
    EXPECT_EQ(several.enumerated, one.enumerated);
    EXPECT_EQ(several.feasible, one.feasible);
    EXPECT_EQ(several.violations, one.violations);
    EXPECT_EQ(several.recomputing, one.recomputing);
    EXPECT_EQ(several.shortfall.has_value(), one.shortfall.has_value());
    if (several.shortfall && one.shortfall) {
      EXPECT_EQ(several.shortfall->config, one.shortfall->config);
      EXPECT_EQ(several.shortfall->missing, one.shortfall->missing);
    }
    EXPECT_EQ(several.fastest.has_value(), one.fastest.has_value());
    if (several.fastest && one.fastest) {
      EXPECT_EQ(several.fastest->config, one.fastest->config);
    }
    expect_same_candidates(several.best, one.best);
    expect_same_candidates(several.ties, one.ties);
    expect_same_candidates(several.pareto, one.pareto);
    EXPECT_FALSE(several.unseen.has_value());
    EXPECT_TRUE(several.is_proven);
  }
  return one;
}

TEST(SearchInThreads, FindsWhatOneFinds) {
  const Scenario scenario = shipped_scenario("gpt3-175b", "selene-a100", "megatron-lm-2022");
  const SearchResult one =
      expect_no_trace(scenario, {.gpus = 1024, .num_best = 50, .tie = 0.02}, {2, 3, 8});
  EXPECT_EQ(one.best.size(), 50U);
  EXPECT_FALSE(one.ties.empty());
  EXPECT_TRUE(one.shortfall.has_value());
}

// With schedules that the stack does not run.
TEST(SearchInThreads, HasTheFinalistsOfOne) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 256);
  const SearchOptions options{
      .gpus = 64,
      .space = {.schedules = synchronous_schedules(), .ignores_stack_support = true},
      .num_best = 20};
  const SearchResult one = expect_no_trace(scenario, options, {3});
  EXPECT_TRUE(std::ranges::any_of(one.best, [&](const Candidate& candidate) {
    return !is_run_by_stack(scenario.stack, candidate.config);
  }));
}

}  // namespace
}  // namespace ptdp
