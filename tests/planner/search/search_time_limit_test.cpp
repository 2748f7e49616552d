// Ends searches before they have looked at everything, at every moment that a counter in place of a
// clock can choose.
#include "planner/search/search_time_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cost_model/iteration/iteration.h"
#include "planner/search/degrees_order.h"
#include "planner/search/search.h"
#include "tests/planner/costed_alone.h"
#include "tests/planner/limited_search.h"
#include "tests/planner/synchronous_schedules.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

struct LimitedSearch {
  const char* name;
  Scenario scenario;
  SearchOptions options;
};

std::vector<LimitedSearch> spaces() {
  const SearchSpace every_schedule = {.schedules = synchronous_schedules(),
                                      .ignores_stack_support = true};
  return {
      {"closed form", shipped_scenario("1T", "selene-a100", "megatron-lm-2021"), {.gpus = 3072}},
      {"cost",
       shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 240),
       {.gpus = 100, .objective = Objective::kCost}},
      {"experts",
       shipped_scenario("qwen3-30b-a3b", "dgx-h100", "megatron-core-2025", 64),
       {.gpus = 64}},
      {"finalists",
       shipped_scenario("7.5B", "selene-a100", "megatron-lm-2022", 64),
       {.gpus = 32, .space = every_schedule}},
      {"orders walked through", shipped_scenario("gpt2-124m", "host", "ptdp-cpu", 8), {.gpus = 4}},
  };
}

std::set<std::string> configs_of(const std::vector<Candidate>& candidates) {
  std::set<std::string> configs;
  for (const Candidate& candidate : candidates) {
    configs.insert(to_string(candidate.config));
  }
  return configs;
}

void expect_same(const SearchResult& found, const SearchResult& expected) {
  EXPECT_EQ(found.enumerated, expected.enumerated);
  EXPECT_EQ(found.feasible, expected.feasible);
  EXPECT_EQ(found.violations, expected.violations);
  EXPECT_EQ(configs_of(found.best), configs_of(expected.best));
  EXPECT_EQ(configs_of(found.pareto), configs_of(expected.pareto));
}

// What is left of a search is what its counts lack: that all of it takes no less than the bound
// says is seen by the whole search's best, wherever that is not among what was found.
TEST(SearchLimit, GivesTheBestSoFarAndABoundOfWhatIsLeft) {
  int ended = 0;
  int unproven = 0;
  for (const LimitedSearch& space : spaces()) {
    SearchOptions options = space.options;
    options.num_best = 200;
    const SearchResult whole = search(space.scenario, options);
    ASSERT_FALSE(whole.unseen.has_value()) << space.name;
    ASSERT_FALSE(whole.best.empty()) << space.name;
    for (int questions = 1; questions < 2'000'000; questions = questions * 3 + 1) {
      options.limit = after_questions(questions);
      const SearchResult part = search(space.scenario, options);
      SCOPED_TRACE(testing::Message() << space.name << " after " << questions << " questions");
      if (!part.unseen.has_value()) {
        EXPECT_TRUE(part.is_proven);
        expect_same(part, whole);
        break;
      }
      ++ended;
      unproven += part.is_proven ? 0 : 1;
      EXPECT_LE(part.enumerated, whole.enumerated);
      EXPECT_LE(part.feasible, whole.feasible);
      const std::set<std::string> found = configs_of(part.best);
      for (const Candidate& candidate : whole.best) {
        if (!found.contains(to_string(candidate.config))) {
          EXPECT_FALSE(part.is_proven) << to_string(candidate.config);
          EXPECT_GE(candidate.time, part.unseen->least_time) << to_string(candidate.config);
          EXPECT_GE(score(candidate.time, candidate.config, options.objective),
                    part.unseen->least_score)
              << to_string(candidate.config);
        }
      }
      for (const Candidate& candidate : part.best) {  // nothing that cannot be
        EXPECT_EQ(candidate.time, time_alone(space.scenario, candidate.config));
      }
    }
  }
  EXPECT_GT(ended, 20);
  EXPECT_GT(unproven, 10);
}

TEST(SearchLimit, LeavesTimeForOneFinalistWheneverSomethingFits) {
  const Scenario scenario = shipped_scenario("7.5B", "selene-a100", "megatron-lm-2022", 64);
  SearchOptions options{.gpus = 32,
                        .space = {.pp = IntegerRanges::parse("2:32", 1, 32, "pp"),
                                  .schedules = {ScheduleKind::kZbH1},
                                  .ignores_stack_support = true}};
  int alone = 0;
  for (int questions = 1; questions < 100; ++questions) {
    options.limit = after_questions(questions);
    const SearchResult result = search(scenario, options);
    EXPECT_EQ(result.best.empty(), result.feasible == 0) << questions;
    alone += result.unseen.has_value() && result.best.size() == 1 ? 1 : 0;
  }
  EXPECT_GT(alone, 0);
}

TEST(SearchLimit, NeverSpentChangesNothingForAnyNumberOfThreads) {
  const LimitedSearch space = spaces()[1];
  const SearchResult expected = search(space.scenario, space.options);
  for (const int threads : {1, 2, 5}) {
    SearchOptions options = space.options;
    options.num_threads = threads;
    options.limit = SearchLimit([] { return 0.5; });
    expect_same(search(space.scenario, options), expected);
  }
}

TEST(SearchLimit, OfSeveralThreadsBoundsWhatNoneOfThemLookedAt) {
  const LimitedSearch space = spaces()[0];
  SearchOptions options = space.options;
  const SearchResult whole = search(space.scenario, options);
  options.num_threads = 4;
  options.limit = after_questions(30);
  const SearchResult part = search(space.scenario, options);
  ASSERT_TRUE(part.unseen.has_value());
  if (configs_of(part.best) != configs_of(whole.best)) {
    EXPECT_LE(part.unseen->least_time, whole.best.back().time);
    EXPECT_FALSE(part.is_proven);
  }
}

TEST(SearchLimit, SharesWhatIsLeft) {
  double spent = 0.2;
  const SearchLimit limit([&] { return spent; });
  const SearchLimit half = limit.share(0.5);  // up to 0.6
  EXPECT_FALSE(half.is_over());
  spent = 0.59;
  EXPECT_FALSE(half.is_over());
  spent = 0.61;
  EXPECT_TRUE(half.is_over());
  EXPECT_FALSE(limit.is_over());
  spent = 1.0;
  EXPECT_TRUE(limit.is_over());
  EXPECT_TRUE(limit.share(0.5).is_over());
  EXPECT_FALSE(SearchLimit().share(0.5).is_over());
}

// The floor is below what each candidate of the split takes, in closed form or simulated.
// The fastest are the nearest to it.
// A cluster whose products take half of the modeled time has half of the floor; twice, no more.
TEST(ComputeFloor, CountsAFactorThatMakesProductsFaster) {
  const std::vector<Replicas> replicas;
  Scenario scenario = selene_2021("7.5B", 24);
  const auto floor = [&](double factor) {
    scenario.cluster.time_factors.matmul = factor;
    return ComputeFloor(scenario, 8, replicas).gpu_seconds();
  };
  EXPECT_GT(floor(1.0), Seconds(0.0));
  EXPECT_DOUBLE_EQ(floor(0.5) / floor(1.0), 0.5);
  EXPECT_EQ(floor(2.0), floor(1.0));
}

TEST(ComputeFloor, IsBelowTheFastestCandidatesOfItsSplit) {
  for (LimitedSearch& space : spaces()) {
    space.scenario.stack.host_time_per_kernel = Seconds(0.0);  // which no floor of compute counts
    SearchOptions options = space.options;
    options.num_best = 2'000;
    const std::vector<Replicas> replicas =
        enumerate_replicas(space.scenario, options.gpus, options.space);
    const ComputeFloor floor(space.scenario, options.gpus, replicas);
    double tightest = 0.0;
    for (const Candidate& candidate : search(space.scenario, options).best) {
      const ParallelConfig& config = candidate.config;
      const Seconds least = floor.of({.tp = config.tp, .pp = config.pp, .cp = config.cp});
      ASSERT_LE(least, candidate.time) << space.name << " " << to_string(config);
      ASSERT_LE(floor.gpu_seconds(), candidate.time * static_cast<double>(config.world_size()));
      tightest = std::max(tightest, least / candidate.time);
    }
    EXPECT_GT(tightest, 0.2) << space.name;  // a floor that says something
  }
}

TEST(SearchLimit, OfWorkIsOverOnceThatIsDoneAndWithTheLimitThatItIsMadeOf) {
  const SearchLimit work = SearchLimit().of_work(Seconds(1.0));
  const SearchLimit copy = work.share(0.5);
  work.count(Seconds(0.75));
  EXPECT_FALSE(copy.is_over());
  copy.count(Seconds(0.25));
  EXPECT_TRUE(work.is_over());
  EXPECT_EQ(work.work(), Seconds(1.0));
  EXPECT_FALSE(work.of_work(Seconds(1.0)).is_over());
  EXPECT_TRUE(SearchLimit([] { return 1.0; }).of_work(Seconds(1.0)).is_over());
}

// A search that is cut off by work does and finds the same each time.
TEST(SearchLimit, OfWorkEndsASearchAtOnePlace) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 240);
  for (const double most : {1e-4, 1e-3, 1e-2}) {
    std::set<double> work;
    std::set<std::int64_t> looked_at;
    for (int time = 0; time < 3; ++time) {
      const SearchOptions options{.gpus = 100, .limit = SearchLimit().of_work(Seconds(most))};
      looked_at.insert(search(scenario, options).enumerated);
      work.insert(options.limit.work().value());
    }
    EXPECT_EQ(looked_at.size(), 1U);
    EXPECT_EQ(work.size(), 1U);
    EXPECT_GT(*work.begin(), 0.0);
  }
}

}  // namespace
}  // namespace ptdp
