// Tests of which configurations tie, against brute force, and of which one is chosen.
#include "planner/search/ties.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "planner/search/exhaustive_search.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<ParallelConfig> configs_of(const std::vector<Candidate>& candidates) {
  std::vector<ParallelConfig> configs;
  std::ranges::transform(candidates, std::back_inserter(configs), &Candidate::config);
  return configs;
}

TEST(Ties, AreAllCandidatesThatLoseNoMore) {
  const Scenario scenario = shipped_scenario("gpt2-1.5b", "selene-a100", "megatron-lm-2022", 12);
  for (const Objective objective : {Objective::kTime, Objective::kCost}) {
    for (const int num_threads : {1, 3}) {
      const SearchOptions options{.gpus = 8,
                                  .objective = objective,
                                  .num_best = 1,
                                  .tie = 0.3,
                                  .num_threads = num_threads,
                                  .wants_front = false};
      std::vector<Candidate> expected = exhaustive_search(scenario, options);
      std::erase_if(expected, [&, best = expected.front()](const Candidate& one) {
        return score(one.time, one.config, objective) >
               1.3 * score(best.time, best.config, objective);
      });
      const SearchResult found = search(scenario, options);
      ASSERT_GT(expected.size(), 3U);
      EXPECT_EQ(configs_of(found.ties), configs_of(expected));
      EXPECT_EQ(found.best.size(), 1U);
      EXPECT_TRUE(found.is_proven);
    }
  }
}

TEST(Ties, AreNotLookedForUnlessAsked) {
  const Scenario scenario = shipped_scenario("gpt2-1.5b", "selene-a100", "megatron-lm-2022", 12);
  EXPECT_THAT(search(scenario, {.gpus = 8}).ties, IsEmpty());
}

/// Returns a candidate on 80 GiB GPUs with this time and memory.
Candidate tie_of(ParallelConfig config, double seconds, double gibi) {
  return {.config = std::move(config), .time = Seconds(seconds), .memory = gibibytes(gibi)};
}

/// What the choice rests on: selene-a100 has 8 GPUs of 80 GiB in a node.
struct Preference {
  const char* what;
  Candidate preferred;
  Candidate other;
};

TEST(Ties, ArePreferredByWhatTheyCostBesidesTime) {
  const Scenario scenario = selene_2021("18B", 1024);
  const SearchOptions options{.gpus = 64};
  const std::vector<Preference> cases = {
      {"GPUs at work", tie_of({.tp = 8, .pp = 8}, 1.01, 79.0),
       tie_of({.tp = 7, .pp = 9}, 1.0, 10.0)},
      {"tensor parallelism in a node", tie_of({.tp = 8, .pp = 8}, 1.01, 79.0),
       tie_of({.tp = 16, .pp = 4}, 1.0, 10.0)},
      {"much less memory",
       tie_of({.tp = 8, .pp = 8, .vpp = 2, .schedule = ScheduleKind::kInterleaved}, 1.01, 41.87),
       tie_of({.tp = 8, .pp = 8}, 1.0, 77.3)},
      {"a plain schedule", tie_of({.tp = 8, .pp = 8}, 1.01, 70.0),
       tie_of({.tp = 8, .pp = 8, .vpp = 2, .schedule = ScheduleKind::kInterleaved}, 1.0, 65.0)},
      {"fewer chunks",
       tie_of({.tp = 8, .pp = 8, .vpp = 2, .schedule = ScheduleKind::kInterleaved}, 1.01, 70.0),
       tie_of({.tp = 8, .pp = 8, .vpp = 4, .schedule = ScheduleKind::kInterleaved}, 1.0, 65.0)},
      {"powers of two", tie_of({.tp = 8, .pp = 8, .micro_batch_size = 2}, 1.01, 79.0),
       tie_of({.tp = 8, .pp = 8, .micro_batch_size = 3}, 1.0, 70.0)},
      {"a little less memory", tie_of({.tp = 8, .pp = 8}, 1.01, 66.0),
       tie_of({.tp = 4, .pp = 16}, 1.0, 79.0)},
      {"time", tie_of({.tp = 8, .pp = 8}, 1.0, 39.0), tie_of({.tp = 4, .pp = 16}, 1.01, 3.0)}};
  for (const Preference& one : cases) {
    EXPECT_TRUE(is_preferred(one.preferred, one.other, scenario, options)) << one.what;
    EXPECT_FALSE(is_preferred(one.other, one.preferred, scenario, options)) << one.what;
  }
}

TEST(Ties, MayLeaveGpusIdleThatNobodyPaysFor) {
  const Scenario scenario = selene_2021("18B", 1024);
  const Candidate half = tie_of({.tp = 8, .pp = 4}, 1.0, 10.0);
  const Candidate whole = tie_of({.tp = 8, .pp = 8}, 0.501, 10.0);
  EXPECT_TRUE(is_preferred(whole, half, scenario, {.gpus = 64}));
  EXPECT_TRUE(is_preferred(half, whole, scenario, {.gpus = 64, .objective = Objective::kCost}));
}

TEST(ChosenTie, StandsFirstAndSaysWhatItWasChosenFor) {
  const Scenario scenario = selene_2021("18B", 1024);
  const SearchOptions options{.gpus = 64, .num_best = 2, .tie = 0.015};
  const Candidate fastest =
      tie_of({.tp = 8, .pp = 8, .vpp = 2, .schedule = ScheduleKind::kInterleaved}, 1.0, 78.0);
  const Candidate chosen = tie_of({.tp = 8, .pp = 8}, 1.01, 70.5);
  const Candidate slow = tie_of({.tp = 8, .pp = 4, .dp = 2}, 1.3, 30.0);
  SearchResult found{.best = {fastest, slow}, .ties = {fastest, chosen}};
  choose_among_ties(scenario, options, found);
  EXPECT_THAT(configs_of(found.best), ElementsAre(chosen.config, fastest.config));
  ASSERT_TRUE(found.fastest);
  EXPECT_EQ(found.fastest->config, fastest.config);
  EXPECT_THAT(gains_of_choice(chosen, fastest, scenario, options),
              ElementsAre("7.5 GiB less", "a plainer schedule"));
}

TEST(ChosenTie, MayBeTheFastest) {
  const Scenario scenario = selene_2021("18B", 1024);
  const Candidate fastest = tie_of({.tp = 8, .pp = 8}, 1.0, 70.0);
  SearchResult found{.best = {fastest}, .ties = {fastest}};
  choose_among_ties(scenario, {.gpus = 64, .tie = 0.015}, found);
  EXPECT_FALSE(found.fastest);
  EXPECT_THAT(configs_of(found.best), ElementsAre(fastest.config));
}

}  // namespace
}  // namespace ptdp
