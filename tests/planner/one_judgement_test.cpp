// What bounds, searches, plans and simulations say of one step, on jobs drawn at random.
//
// PTDP_RANDOM_PLANS=5000 PTDP_RANDOM_SEED=7 planner_test --gtest_filter='OneJudgement.*'   draws
// more of them, or others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <vector>

#include "cost_model/iteration/schedule_shape.h"
#include "cost_model/iteration/step_builder.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "cost_model/simulation/engine/step_simulator.h"
#include "planner/answer/planning.h"
#include "planner/constraints/constraint.h"
#include "planner/plan/plan_simulation.h"
#include "tests/planner/costed_alone.h"
#include "tests/planner/random_queries.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostGpus = 4096;
constexpr double kMostActions = 200'000;  // largest step that a test simulates in full

std::uint64_t seed() {
  return static_cast<std::uint64_t>(number_of("PTDP_RANDOM_SEED", 1));
}

std::string name_of(const RandomCandidate& drawn) {
  return drawn.scenario.job.model_name + " batch " +
         std::to_string(drawn.scenario.job.global_batch_size) + " on " +
         drawn.scenario.cluster.name + " with " + drawn.scenario.stack.name + ": " +
         to_string(drawn.config);
}

std::int64_t microbatches_of(const RandomCandidate& drawn) {
  return num_microbatches(drawn.scenario.job.global_batch_size, drawn.config);
}

/// Draws a candidate whose simulation a test can afford.
RandomCandidate draw_cheap(QueryLottery& lottery) {
  while (true) {
    RandomCandidate drawn = lottery.draw_candidate(kMostGpus);
    if (simulated_actions(drawn.config, microbatches_of(drawn)) < kMostActions) {
      return drawn;
    }
  }
}

TEST(OneJudgement, BoundsOfAStepAreNeverAboveIt) {
  constexpr double rounding = 1.0 + 1e-9;
  QueryLottery lottery(seed());
  std::map<ScheduleKind, std::vector<double>> shares;
  for (std::int64_t i = 0; i < number_of("PTDP_RANDOM_PLANS", 80); ++i) {
    const RandomCandidate drawn = draw_cheap(lottery);
    const auto& [scenario, config] = drawn;
    const MicrobatchCosts costs = microbatch_costs(scenario, config);
    StepSimulations simulations;
    const Seconds step = simulations.simulate({scenario, config, &costs});
    const Seconds bound = least_step_time({scenario, config, &costs});
    const LeastPasses passes({scenario, config, &costs});
    EXPECT_LE(bound, step) << name_of(drawn);
    EXPECT_LE(least_iteration_time({scenario, config, &costs}, passes), step * rounding)
        << name_of(drawn);
    shares[config.schedule].push_back(bound / step);
  }
  for (auto& [schedule, of] : shares) {
    std::ranges::sort(of);
    std::cout << name_of(schedule) << ": " << of.size() << " bounds, median " << of[of.size() / 2]
              << " of the step\n";
  }
  // A bound is worth its time where it is near the step, as it is for the commonest schedule.
  const std::vector<double>& of_1f1b = shares.at(ScheduleKind::kOneFOneB);
  EXPECT_GT(of_1f1b[of_1f1b.size() / 2], 0.95);
}

TEST(OneJudgement, BreakdownsAddUpToTheStep) {
  QueryLottery lottery(seed() + 1);
  for (std::int64_t i = 0; i < number_of("PTDP_RANDOM_PLANS", 40); ++i) {
    const RandomCandidate drawn = draw_cheap(lottery);
    const CostBreakdown cost = iteration_cost({drawn.scenario, drawn.config});
    for (const CostTerm& term : kCostTerms) {
      EXPECT_GE(cost.*term.time, Seconds(0.0)) << term.name << ": " << name_of(drawn);
    }
    EXPECT_NEAR(cost.total() / time_alone(drawn.scenario, drawn.config), 1.0, 1e-9)
        << name_of(drawn);
  }
}

/// Returns the time of a step with all its microbatches, simulated action by action.
Seconds step_in_full(const RandomCandidate& drawn) {
  const auto& [scenario, config] = drawn;
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const Schedule schedule =
      complete(traits_of(config.schedule).generate(schedule_shape({scenario, config, &costs})),
               step_actions({scenario, config}));
  StepTimes times = step_times({scenario, config, &costs});
  times.shares_links = is_contended(times, step_actions({drawn.scenario, drawn.config}));
  return step_of(scenario.stack, simulate_step_times(schedule, times));
}

/// Returns the number of actions of a candidate's step, as the search counts them.
double actions_in_full(const RandomCandidate& drawn) {
  return most_actions(drawn.config.pp, drawn.config.vpp, microbatches_of(drawn));
}

// Simulating every action must not change the step that the search shortens.
TEST(OneJudgement, StepsOfFewMicrobatchesAreSimulatedInFull) {
  QueryLottery lottery(seed() + 4);
  std::int64_t compared = 0;
  while (compared < number_of("PTDP_RANDOM_PLANS", 40)) {
    const RandomCandidate drawn = draw_cheap(lottery);
    if (actions_in_full(drawn) > kMostActions ||
        simulated_actions(drawn.config, microbatches_of(drawn)) < actions_in_full(drawn)) {
      continue;
    }
    StepSimulations simulations;
    const Seconds step = simulations.simulate({drawn.scenario, drawn.config});
    EXPECT_NEAR(step / step_in_full(drawn), 1.0, 1e-9) << name_of(drawn);
    ++compared;
  }
}

/// Returns the candidate with so many microbatches that some of them stand for the rest.
RandomCandidate with_many_microbatches(RandomCandidate drawn) {
  constexpr std::int64_t many_actions = 120'000;
  const ParallelConfig& config = drawn.config;
  const std::int64_t rounds = many_actions / (std::int64_t{7} * config.vpp * config.pp * config.pp);
  drawn.scenario.job.global_batch_size =
      std::max<std::int64_t>(rounds, 6) * config.pp * config.micro_batch_size * config.dp;
  return drawn;
}

// Seen are 1e-3 as a rule. Reductions and gathers that share links with messages leave more, as do
// schedules whose rhythm is longer than a round.
TEST(OneJudgement, StepsOfManyMicrobatchesGoOnInTheirRhythm) {
  constexpr double most_off = 0.02;
  constexpr double usually_off = 1e-3;
  QueryLottery lottery(seed() + 2);
  std::vector<double> errors;
  while (std::ssize(errors) < number_of("PTDP_RANDOM_PLANS", 20)) {
    const RandomCandidate drawn = with_many_microbatches(draw_cheap(lottery));
    if (drawn.config.pp == 1 || actions_in_full(drawn) > 2.0 * kMostActions ||
        find_violation({drawn.scenario, drawn.config}, Bytes(1e18))) {
      continue;
    }
    StepSimulations simulations;
    const Seconds step = simulations.simulate({drawn.scenario, drawn.config});
    const double error = step / step_in_full(drawn) - 1.0;
    EXPECT_LT(std::abs(error), most_off) << error << ": " << name_of(drawn);
    errors.push_back(std::abs(error));
  }
  std::ranges::sort(errors);
  std::cout << "median " << errors[errors.size() / 2] << ", nine in ten within "
            << errors[errors.size() * 9 / 10] << ", worst " << errors.back() << '\n';
  EXPECT_LT(errors[errors.size() / 2], usually_off);
}

// What ranks plans is what ptdp-sim finds for the chosen one.
TEST(OneJudgement, ChosenPlansTakeWhatTheirSimulationsTake) {
  constexpr double most_off = 0.02;
  constexpr std::int64_t few_gpus = 64;
  QueryLottery lottery(seed() + 3);
  std::map<ScheduleKind, int> chosen;
  std::int64_t planned = 0;
  while (planned < number_of("PTDP_RANDOM_PLANS", 40)) {
    const RandomQuery query = lottery.draw_query(few_gpus);
    const SearchOptions options{
        .gpus = query.gpus, .space = query.space, .num_best = 1, .wants_front = false};
    const SearchResult found = search(query.scenario, options);
    if (found.best.empty()) {
      continue;
    }
    const Plan plan = make_plan({query.scenario, found.best.front().config}, query.gpus, 0.0, {});
    if (num_step_actions(plan) > kMostActions) {
      continue;
    }
    const Seconds predicted = plan.predicted.iteration_time.value;
    EXPECT_NEAR(predicted / found.best.front().time, 1.0, 1e-9);
    EXPECT_NEAR(simulate_plan(plan, {}).step / predicted, 1.0, most_off)
        << name_of({query.scenario, plan.config});
    ++chosen[plan.config.schedule];
    ++planned;
  }
  for (const auto& [schedule, count] : chosen) {
    std::cout << name_of(schedule) << ": " << count << '\n';
  }
  EXPECT_GE(chosen.size(), 5U);
}

}  // namespace
}  // namespace ptdp
