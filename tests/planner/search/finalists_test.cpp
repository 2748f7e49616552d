// Tests of candidates that are simulated for the final choice.
#include "planner/search/finalists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "cost_model/iteration/iteration.h"
#include "cost_model/memory/memory.h"
#include "tests/planner/costed_alone.h"
#include "tests/planner/synchronous_schedules.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

SearchOptions options_of(std::int64_t gpus, int num_best) {
  return {.gpus = gpus,
          .space = {.schedules = synchronous_schedules(), .ignores_stack_support = true},
          .num_best = num_best};
}

/// Returns the memory limits that a schedule may have. The searched schedule has that of ZB-H1 or
/// that of ZB-H2.
std::vector<std::optional<int>> limits_of(ScheduleKind schedule, int pp) {
  return schedule == ScheduleKind::kZbAuto ? std::vector<std::optional<int>>{pp, 2 * pp - 1}
                                           : std::vector<std::optional<int>>{std::nullopt};
}

/// Returns every configuration of small degrees, each simulated.
std::vector<Candidate> brute_force(const Scenario& given, std::int64_t gpus, Objective objective) {
  const Scenario scenario = with_every_schedule(given);
  const Bytes capacity = usable_memory(scenario.cluster.gpu, 0.0);
  std::vector<Candidate> feasible;
  const auto try_one = [&](const ParallelConfig& config) {
    if (!find_violation({scenario, config}, capacity).has_value()) {
      feasible.push_back({config, time_alone(scenario, config), peak_memory({scenario, config})});
    }
  };
  for (int tp = 1; tp <= gpus; tp *= 2) {
    for (int pp = 1; std::int64_t{tp} * pp <= gpus; ++pp) {
      for (int dp = 1; std::int64_t{tp} * pp * dp <= gpus; ++dp) {
        for (int b = 1; b <= scenario.job.global_batch_size; ++b) {
          for (int vpp = 1; vpp <= scenario.job.model.num_layers; ++vpp) {
            for (const ScheduleKind schedule : synchronous_schedules()) {
              const bool is_pipeline = pp > 1 || schedule == ScheduleKind::kOneFOneB;
              if (has_chunks(schedule, vpp) && is_pipeline) {
                for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
                  for (const std::optional<int> limit : limits_of(schedule, pp)) {
                    try_one({.tp = tp,
                             .pp = pp,
                             .dp = dp,
                             .vpp = vpp,
                             .micro_batch_size = b,
                             .schedule = schedule,
                             .recompute = recompute,
                             .memory_limit = limit});
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  std::sort(feasible.begin(), feasible.end(), [&](const Candidate& a, const Candidate& b) {
    const double score_a = score(a.time, a.config, objective);
    const double score_b = score(b.time, b.config, objective);
    return std::tie(score_a, a.config) < std::tie(score_b, b.config);
  });
  return feasible;
}

/// Returns the candidates that no other beats in both time and memory.
std::vector<Candidate> front_of(std::vector<Candidate> candidates) {
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.time, a.memory, a.config) < std::tie(b.time, b.memory, b.config);
  });
  std::vector<Candidate> front;
  for (const Candidate& candidate : candidates) {
    const bool is_slow = !front.empty() && candidate.time > 2.0 * front.front().time;
    if (front.empty() || (candidate.memory < front.back().memory && !is_slow)) {
      front.push_back(candidate);
    }
  }
  return front;
}

void expect_equal(const std::vector<Candidate>& found, const std::vector<Candidate>& expected,
                  std::size_t count, const char* what) {
  ASSERT_GE(found.size(), count) << what;
  ASSERT_GE(expected.size(), count) << what;
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(found[i].config, expected[i].config)
        << what << " place " << i << ": " << to_string(found[i].config) << ", expected "
        << to_string(expected[i].config);
    EXPECT_NEAR(found[i].time / expected[i].time, 1.0, 1e-12) << what << " place " << i;
    EXPECT_EQ(found[i].memory, expected[i].memory) << what << " place " << i;
  }
}

TEST(Finalists, AreWhatSimulatingEverythingFinds) {
  struct Row {
    const char* model = nullptr;
    const char* stack = nullptr;
    std::int64_t gpus = 0;
    std::int64_t batch = 0;
    int layers = 0;
    Objective objective = Objective::kTime;
  };
  for (const Row& row :
       {Row{"3.6B", "megatron-lm-2021", 8, 16, 24}, Row{"7.5B", "megatron-lm-2021", 16, 24, 12},
        Row{"7.5B", "megatron-lm-2021", 12, 36, 12, Objective::kCost}}) {
    Scenario scenario = shipped_scenario(row.model, "selene-a100", row.stack, row.batch);
    scenario.job.model.num_layers = row.layers;
    const std::vector<Candidate> expected = brute_force(scenario, row.gpus, row.objective);
    std::set<ScheduleKind> kinds;
    for (const Candidate& candidate : expected) {
      kinds.insert(candidate.config.schedule);
    }
    EXPECT_EQ(kinds.size(), synchronous_schedules().size());
    for (const int num_best : {1, 5, 40}) {
      SearchOptions options = options_of(row.gpus, num_best);
      options.objective = row.objective;
      options.space.tp = IntegerRanges::parse("1,2,4,8,16", 1, 64, "tp");
      options.space.recompute = {Recompute::kNone, Recompute::kFull};
      const SearchResult found = search(scenario, options);
      EXPECT_EQ(found.feasible, std::ssize(expected)) << row.model;
      expect_equal(found.best, expected, static_cast<std::size_t>(num_best), row.model);
      const std::vector<Candidate> front = front_of(expected);
      ASSERT_EQ(found.pareto.size(), front.size()) << row.model;
      expect_equal(found.pareto, front, front.size(), "front");
    }
  }
}

// Against every configuration of the searched schedule alone, on a stack that it was made for.
TEST(Finalists, OfTheSearchedScheduleAreWhatSimulatingEverythingFinds) {
  Scenario scenario = shipped_scenario("7.5B", "roce-a100", "zero-bubble-2023", 12);
  scenario.job.model.num_layers = 8;
  SearchOptions options = options_of(8, 20);
  options.space.schedules = {ScheduleKind::kZbAuto};
  options.space.zero_stage = IntegerRanges(0);
  std::vector<Candidate> expected = brute_force(scenario, 8, Objective::kTime);
  std::erase_if(expected, [](const Candidate& candidate) {
    return candidate.config.schedule != ScheduleKind::kZbAuto;
  });
  const SearchResult result = search(scenario, options);
  std::set<bool> is_large;
  for (const Candidate& candidate : result.best) {
    is_large.insert(candidate.config.memory_limit > candidate.config.pp);
  }
  EXPECT_EQ(is_large.size(), 2U);  // both limits are among them
  expect_equal(result.best, expected, 20, "zb-auto");
}

TEST(Finalists, OfAStackAreTheSchedulesThatItRuns) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "zero-bubble-2023", 256);
  const SearchResult result = search(scenario, {.gpus = 64, .num_best = 1000});
  std::set<ScheduleKind> kinds;
  for (const Candidate& candidate : result.best) {
    EXPECT_TRUE(is_run_by_stack(scenario.stack, candidate.config)) << to_string(candidate.config);
    kinds.insert(candidate.config.schedule);
  }
  EXPECT_EQ(kinds, (std::set<ScheduleKind>{ScheduleKind::kOneFOneB, ScheduleKind::kInterleaved,
                                           ScheduleKind::kZbH1, ScheduleKind::kZbH2,
                                           ScheduleKind::kZbV, ScheduleKind::kZbAuto}));
}

// More memory or a better schedule never loses: what all schedules find is no slower.
TEST(Finalists, AreNeverSlowerThanTheStacksOwn) {
  const Scenario scenario = selene_2021("1T");
  const Seconds own = search(scenario, {.gpus = 3072, .num_best = 1}).best.front().time;
  const SearchResult all = search(scenario, options_of(3072, 1));
  EXPECT_LT(all.best.front().time, own);
}

TEST(StaleWeights, AreACandidateOnlyWhereTheyAreAllowed) {
  const Scenario scenario = selene_2021("7.5B", 64);
  SearchOptions options{.gpus = 8, .num_best = 10'000};
  const auto has_stale = [](const SearchResult& result) {
    return std::any_of(result.best.begin(), result.best.end(), [](const Candidate& candidate) {
      return !traits_of(candidate.config.schedule).is_synchronous;
    });
  };
  EXPECT_FALSE(has_stale(search(scenario, options)));
  options.space.ignores_stack_support = true;
  options.space.schedules.clear();
  for (const NamedValue<ScheduleKind>& schedule : kScheduleNames) {
    options.space.schedules.push_back(schedule.value);
  }
  EXPECT_FALSE(has_stale(search(scenario, options)));
  options.space = {.allow_stale_weights = true};
  EXPECT_TRUE(has_stale(search(scenario, options)));
}

// arXiv:1806.03377 and 2006.09503, section 3: rank 0 of 4 keeps 4 versions, or two; 32 microbatches
// are 32 steps of the optimizer, or one.
TEST(StaleWeights, HaveNoBubbleAndMoreVersionsOfTheirWeights) {
  const Scenario scenario = selene_2021("7.5B", 64);
  ParallelConfig config{.tp = 4, .pp = 4, .dp = 2};
  const CostBreakdown flushed = iteration_cost({scenario, config});
  const MemoryBreakdown one_version = rank_memory({scenario, config}, 0);
  config.schedule = ScheduleKind::kPipeDream2Bw;
  const CostBreakdown two_versions = iteration_cost({scenario, config});
  EXPECT_GT(flushed.bubble, Seconds(0.0));
  EXPECT_EQ(two_versions.bubble, Seconds(0.0));
  EXPECT_EQ(two_versions.optimizer, flushed.optimizer);
  EXPECT_EQ(rank_memory({scenario, config}, 0).weights, 2.0 * one_version.weights);
  config.schedule = ScheduleKind::kPipeDream;
  EXPECT_EQ(rank_memory({scenario, config}, 0).weights, 4.0 * one_version.weights);
  EXPECT_NEAR(iteration_cost({scenario, config}).optimizer / flushed.optimizer, 32.0, 1e-9);
}

// The schedules of one job: what is not run, does not exist or fits is counted once each.
TEST(Finalists, AreCountedAmongAllCandidates) {
  const SearchResult result =
      search(shipped_scenario("18B", "selene-a100", "megatron-lm-2021", 96), options_of(96, 5));
  std::int64_t rejected = 0;
  for (const auto& [constraint, count] : result.violations) {
    rejected += count;
  }
  EXPECT_EQ(result.enumerated, result.feasible + rejected);
  EXPECT_GT(result.violations.at(Constraint::kScheduleByPp), 0);
  EXPECT_GT(result.violations.at(Constraint::kScheduleByMicrobatches), 0);
}

}  // namespace
}  // namespace ptdp
