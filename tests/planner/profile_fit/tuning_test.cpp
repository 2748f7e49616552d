// Tests of the loop of runs, refit and search, and of its report.
#include "planner/profile_fit/tuning.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "cost_model/measured/quantile.h"
#include "planner/answer/planning.h"
#include "tests/planner/fake_machine.h"
#include "tests/support/round_trip.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

Scenario host_of_tuning() {
  return host_scenario(small_model(128, 128), 16);
}

PlansDocument list_of(const Scenario& believed, int num_best) {
  const SearchOptions options{.gpus = 2, .num_best = num_best};
  const PlanningResult result = plan_training(believed, options, CalibrationSource::none());
  return {.scenario = believed, .options = options, .plans = result.plans};
}

/// Returns a runner whose every step takes as long as `machine` predicts. Counts its calls in
/// `calls`.
PlanRunner runner(const Scenario& machine, int* calls = nullptr) {
  return [machine, calls](const std::vector<Plan>& plans) {
    if (calls != nullptr) {
      ++*calls;
    }
    std::vector<RanPlan> runs;
    for (const Plan& plan : plans) {
      const RunReport report = run_on(machine, plan.scenario, plan.config).report;
      runs.push_back(
          {.report = report, .step_times = std::vector<double>(10, report.measured_time.value())});
    }
    return runs;
  };
}

Scenario distorted(ProfileKnob knob, double factor) {
  KnobFactors factors;
  factors[knob] = factor;
  return with_factors(host_of_tuning(), factors);
}

/// Returns the least time that the machine's own profile finds.
double optimum(const Scenario& machine) {
  return search(machine, {.gpus = 2, .num_best = 1, .wants_front = false})
      .best.front()
      .time.value();
}

TEST(Tune, LeavesATrueProfileAndItsChoiceAlone) {
  int calls = 0;
  const Tuning tuning =
      tune(list_of(host_of_tuning(), 3), 3, runner(host_of_tuning(), &calls), "a test");
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(tuning.has_changed());
  EXPECT_EQ(tuning.regret_of(tuning.chosen_first), 0.0);
  EXPECT_THAT(to_text(tuning), HasSubstr("The choice has not changed"));
}

// Links believed 100 times too fast: two ranks are chosen to share every layer, and take forever.
TEST(Tune, FindsALayoutThatDoesNotCommunicateOnSlowLinks) {
  KnobFactors slow;
  for (const ProfileKnob knob : {ProfileKnob::kCollectiveLatency, ProfileKnob::kCollectiveRate,
                                 ProfileKnob::kMessageLatency, ProfileKnob::kMessageRate}) {
    slow[knob] = 100.0;
  }
  const Scenario machine = with_factors(host_of_tuning(), slow);
  const Tuning tuning = tune(list_of(host_of_tuning(), 4), 4, runner(machine), "a test");
  EXPECT_TRUE(tuning.has_changed());
  EXPECT_GT(tuning.regret_of(tuning.chosen_first), 0.1);
  EXPECT_NEAR(tuning.regret_of(tuning.chosen_again), 0.0, 0.01);
  EXPECT_GT(tuning.measured_gain(tuning.best()), 0.1);
  EXPECT_LE(tuning.plans[tuning.chosen_again].measured().value(), 1.05 * optimum(machine));
  EXPECT_THAT(to_text(tuning), HasSubstr("The choice has changed"));
}

TEST(Tune, ComesNearTheOptimumOfMachinesThatAreNotAsBelieved) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> logarithm(-std::log(10.0), std::log(10.0));
  for (int machine = 0; machine < kDistortedMachines; ++machine) {
    KnobFactors distortion;
    for (const ProfileKnobText& text : kProfileKnobs) {
      distortion[text.knob] = std::exp(logarithm(random));
    }
    const Scenario actual = with_factors(host_of_tuning(), distortion);
    const Tuning tuning = tune(list_of(host_of_tuning(), 4), 4, runner(actual), "a test");
    const TunedPlan& fastest = tuning.plans[tuning.fastest];
    EXPECT_LE(tuning.regret_of(tuning.chosen_again), tuning.regret_of(tuning.chosen_first) + 1e-9)
        << machine;
    EXPECT_LE(fastest.measured().value(), 1.1 * optimum(actual)) << machine;
  }
}

/// Returns a plan whose steps took these times.
TunedPlan measured(std::vector<double> times) {
  TunedPlan plan{.run = {.step_times = std::move(times)}};
  plan.run.report.measured_time = Seconds(quantile(plan.run.step_times, 0.5));
  return plan;
}

// Quarter points 0.25 apart, sigma 0.185: the median of 4 steps has an error of 0.116.
TEST(Tune, HasTheStandardErrorOfAMedian) {
  EXPECT_NEAR(measured({0.8, 0.9, 1.1, 1.2}).standard_error(),
              std::sqrt(std::acos(-1.0) / 2.0) * 0.25 / 1.349 / 2.0, 1e-4);
  EXPECT_TRUE(std::isinf(measured({1.0}).standard_error()));
}

// By n times as many steps of the same scatter, medians are told apart that are sqrt(n) times as
// near.
TEST(Tune, CallsATieWhatMediansScatterMoreThan) {
  const auto times = [](double center, std::size_t count) {
    std::vector<double> values;
    for (std::size_t i = 0; i < count; ++i) {
      const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(count);
      values.push_back(center + 0.2 * (share - 0.5));
    }
    return measured(values);
  };
  EXPECT_TRUE(is_tie(times(1.0, 10), times(1.05, 10)));
  EXPECT_FALSE(is_tie(times(1.0, 100), times(1.05, 100)));
  EXPECT_FALSE(is_tie(times(1.0, 10), times(1.2, 10)));
  EXPECT_TRUE(is_tie(measured({1.0}), measured({2.0})));
}

TEST(Tune, KeepsTheFirstChoiceInATie) {
  Tuning tuning;
  tuning.plans = {measured({1.0, 1.1, 1.2}), measured({0.9, 1.05, 1.4})};
  tuning.fastest = 1;
  tuning.chosen_again = 1;
  EXPECT_EQ(tuning.best(), 0U);
  EXPECT_FALSE(tuning.has_changed());
  tuning.plans[1] = measured({0.49, 0.5, 0.51});
  EXPECT_EQ(tuning.best(), 1U);
  EXPECT_TRUE(tuning.has_changed());
}

// A plan that is new by the first refit, and then measures slower than the first choice with steps
// that scatter widely.
TEST(Tune, DoesNotChangeToAPlanThatMeasuredSlower) {
  const PlansDocument list = list_of(host_of_tuning(), 1);
  KnobFactors slow;
  for (const ProfileKnob knob : {ProfileKnob::kCollectiveLatency, ProfileKnob::kCollectiveRate,
                                 ProfileKnob::kMessageLatency, ProfileKnob::kMessageRate}) {
    slow[knob] = 100.0;
  }
  const PlanRunner machine = runner(with_factors(host_of_tuning(), slow));
  const PlanRunner run = [&](const std::vector<Plan>& plans) {
    std::vector<RanPlan> runs = machine(plans);
    if (plans.front().config != list.plans.front().config) {
      // Slower than the first choice, and its middle half wider than that.
      const double time = 1.3 * runs.back().report.measured_time.value();
      runs.front().report.measured_time = Seconds(time);
      runs.front().step_times.clear();
      for (int step = -4; step <= 4; ++step) {
        runs.front().step_times.push_back(time * (1.0 + 0.2 * step));
      }
    }
    return runs;
  };
  const Tuning tuning = tune(list, 1, run, "a test");
  ASSERT_EQ(tuning.plans.size(), 2U);
  ASSERT_TRUE(tuning.plans[1].is_new);
  EXPECT_EQ(tuning.fastest, 0U);
  EXPECT_EQ(tuning.best(), 0U);
  EXPECT_FALSE(tuning.has_changed());
  const std::string text = to_text(tuning);
  EXPECT_THAT(text,
              HasSubstr("The choice has not changed: " + to_string(list.plans.front().config)));
  EXPECT_THAT(text, testing::Not(HasSubstr("because")));
  EXPECT_EQ(nlohmann::json::parse(to_json(tuning))["best"], 0);
}

// The first run tells of slow collectives, the run of a pipeline of slower messages: then a rank
// that works alone is the best.
TEST(Tune, NamesAChoiceThatDidNotRun) {
  KnobFactors slow;
  for (const ProfileKnob knob : {ProfileKnob::kCollectiveLatency, ProfileKnob::kCollectiveRate}) {
    slow[knob] = 200.0;
  }
  for (const ProfileKnob knob : {ProfileKnob::kMessageLatency, ProfileKnob::kMessageRate}) {
    slow[knob] = 900.0;
  }
  const Tuning tuning =
      tune(list_of(host_of_tuning(), 1), 1, runner(with_factors(host_of_tuning(), slow)), "a test");
  ASSERT_TRUE(tuning.not_run.has_value());
  EXPECT_EQ(tuning.not_run->config.world_size(), 1);
  for (const TunedPlan& plan : tuning.plans) {
    EXPECT_NE(to_string(plan.plan.config), to_string(tuning.not_run->config));
  }
  EXPECT_EQ(tuning.best(), tuning.fastest);
  EXPECT_LT(tuning.chosen_again, tuning.plans.size());
  EXPECT_THAT(to_text(tuning),
              HasSubstr("was not run: " + to_string(tuning.not_run->config) + ", predicted "));
  EXPECT_TRUE(nlohmann::json::parse(to_json(tuning)).contains("not_run"));
}

TEST(Tune, NamesTheTermThatChangedTheChoice) {
  const Tuning tuning = tune(list_of(host_of_tuning(), 4), 4,
                             runner(distorted(ProfileKnob::kCollectiveRate, 300.0)), "a test");
  ASSERT_TRUE(tuning.has_changed());
  EXPECT_THAT(find_changed_term(tuning).name,
              testing::AnyOf("data_parallel", "tensor_parallel", "embedding_all_reduce"));
}

// One rank alone says nothing about links.
TEST(Tune, SaysWhatNoPlanMeasured) {
  PlansDocument list = list_of(host_of_tuning(), 1);
  list.plans = {make_plan({host_of_tuning(), layout(1, 1, 1)}, 2, 0.0, Calibration{})};
  list.options.space.tp = IntegerRanges(1);
  list.options.space.pp = IntegerRanges(1);
  list.options.space.dp = IntegerRanges(1);
  EXPECT_THAT(
      to_text(tune(list, 1, runner(host_of_tuning()), "a test")),
      HasSubstr("left as they were, since these plans spend too little time on them: latency of "
                "collectives, transfer of collectives, latency of messages, transfer of messages"));
}

TEST(Tune, WritesWhatItFound) {
  const Tuning tuning = tune(list_of(host_of_tuning(), 2), 2, runner(host_of_tuning()), "a test");
  const nlohmann::json json = nlohmann::json::parse(to_json(tuning));
  EXPECT_EQ(json["schema"], "ptdp.tuning/1");
  EXPECT_EQ(json["plans"].size(), tuning.plans.size());
  EXPECT_EQ(json["changed"], false);
}

TEST(Tune, RefusesAListWithoutPlans) {
  EXPECT_THAT(message_of([] {
                return tune({.scenario = host_of_tuning(), .options = {.gpus = 2}}, 3,
                            runner(host_of_tuning()), "x");
              }),
              HasSubstr("at least one plan"));
}

TEST(PlansDocument, IsReadAsItWasWritten) {
  SearchOptions options{.gpus = 2, .num_best = 3};
  options.space.tp = IntegerRanges::parse("1,2:4", 1, 8, "tp");
  options.space.cp = IntegerRanges(1);
  options.space.recompute = {Recompute::kNone, Recompute::kFull};
  options.space.sequence_parallel = false;
  options.space.schedules = {ScheduleKind::kOneFOneB};
  options.objective = Objective::kCost;
  const PlanningResult result = plan_training(host_of_tuning(), options, CalibrationSource::none());
  const PlansDocument list = parse_plans_document(to_json(result), "plans.json");
  EXPECT_EQ(list.options.space.tp, options.space.tp);
  EXPECT_EQ(list.options.space.cp, options.space.cp);
  EXPECT_EQ(list.options.space.recompute, options.space.recompute);
  EXPECT_EQ(list.options.space.sequence_parallel, options.space.sequence_parallel);
  EXPECT_EQ(list.options.space.schedules, options.space.schedules);
  EXPECT_TRUE(list.options.space.dp.is_any());
  EXPECT_EQ(list.options.objective, Objective::kCost);
  ASSERT_EQ(list.plans.size(), result.plans.size());
  for (std::size_t i = 0; i < list.plans.size(); ++i) {
    EXPECT_EQ(to_json(list.plans[i]), to_json(result.plans[i]));
  }
}

TEST(PlansDocument, RefusesWhatWasChanged) {
  const PlanningResult result =
      plan_training(host_of_tuning(), {.gpus = 2, .num_best = 1}, CalibrationSource::none());
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(to_json(result));
  const auto refusal = [](const nlohmann::ordered_json& edited) {
    return message_of([&] { return parse_plans_document(edited.dump(), "plans.json"); });
  };
  nlohmann::ordered_json edited = json;
  edited["schema"] = "ptdp.plans/2";
  EXPECT_THAT(refusal(edited), HasSubstr("plans.json: schema"));
  edited = json;
  edited["plans"][0]["predicted"]["iteration_time_s"] = 1e-3;
  EXPECT_THAT(refusal(edited), HasSubstr("plans.json: plans[0]"));
  edited = json;
  edited["search"]["tp"] = "two";
  EXPECT_THAT(refusal(edited), HasSubstr("search.tp"));
}

/// Returns a plan of `config` whose time consists of `matmul`, `collectives` and `bubble`.
Plan timed_plan(const ParallelConfig& config, double matmul, double collectives, double bubble) {
  Plan plan;
  plan.gpus = 2;
  plan.config = config;
  plan.predicted.breakdown = {.matmul = Seconds(matmul),
                              .tensor_parallel = Seconds(collectives),
                              .bubble = Seconds(bubble)};
  plan.predicted.iteration_time.value = Seconds(matmul + collectives + bubble);
  return plan;
}

/// Returns a tuning of three plans that is made up. The first is predicted fastest at first, the
/// last after the refit and by measurement. Steps took 2.4 to 2.6 s, 1.96 to 2.04 s and 0.99 to
/// 1.01 s. The search would take a plan that did not run.
Tuning made_up_tuning() {
  Tuning tuning;
  tuning.plans = {measured({2.4, 2.5, 2.6}), measured({1.96, 2.0, 2.04}),
                  measured({0.99, 1.0, 1.01})};
  tuning.plans[0].plan = timed_plan(layout(2, 1, 1), 1.0, 0.0, 0.0);
  tuning.plans[0].corrected = timed_plan(layout(2, 1, 1), 1.0, 1.0, 0.0);
  tuning.plans[1].plan = timed_plan(layout(1, 1, 2), 1.2, 0.0, 0.0);
  tuning.plans[1].corrected = timed_plan(layout(1, 1, 2), 1.6, 0.0, 0.0);
  tuning.plans[2].plan = timed_plan(layout(1, 2, 1), 1.0, 0.25, 0.25);
  tuning.plans[2].corrected = timed_plan(layout(1, 2, 1), 1.0, 0.0, 0.25);
  tuning.plans[2].is_new = true;
  tuning.fit.cluster.gpus_per_node = 8;
  for (const ProfileKnobText& text : kProfileKnobs) {
    tuning.fit.knobs.push_back({.knob = text.knob, .factor = 1.0, .num_runs = 2});
  }
  tuning.fit.knobs[1].num_runs = 0;   // attention
  tuning.fit.knobs[10].num_runs = 0;  // transfer between nodes, of which there is one
  tuning.fit.knobs[0].factor = 2.5;
  tuning.fit.knobs[0].is_at_bound = true;
  tuning.fit.runs = {{.name = "run", .measured = Seconds(1.0), .before = Seconds(1.0)}};
  tuning.chosen_first = 0;
  tuning.chosen_again = 1;
  tuning.fastest = 2;
  tuning.not_run = timed_plan(layout(1, 1, 1), 0.5, 0.0, 0.0);
  return tuning;
}

// The first plan has 1 s more of collectives than the last by the refit, and 0.25 s less by the
// first prediction. Its bubble is 0.25 s less by both.
TEST(TuningText, TellsEveryPlanTheChangeAndItsRegrets) {
  EXPECT_EQ(
      to_text(made_up_tuning()).substr(0, to_text(made_up_tuning()).find("\nCorrections")),
      "   predicted     error    refitted     error    measured    spread  ranks       plan\n"
      "         1 s   -60.0 %         2 s   -20.0 %       2.5 s    100 ms  1 > 3 > 3   tp=2 pp=1 "
      "dp=1 "
      "b=1 1f1b recompute=none\n"
      "       1.2 s   -40.0 %       1.6 s   -20.0 %         2 s     40 ms  2 > 2 > 2   tp=1 pp=1 "
      "dp=2 "
      "b=1 1f1b recompute=none\n"
      "       1.5 s   +50.0 %      1.25 s   +25.0 %         1 s     10 ms  3 > 1 > 1   tp=1 pp=2 "
      "dp=1 "
      "b=1 1f1b recompute=none (new)\n"
      "ranks: as predicted > with refitted profiles > as measured\n"
      "\n"
      "The choice has changed:\n"
      "  from tp=2 pp=1 dp=1 b=1 1f1b recompute=none\n"
      "  to   tp=1 pp=2 dp=1 b=1 1f1b recompute=none\n"
      "because of tensor_parallel: the first plan's differs from the second's by +1 s, not by "
      "-250 ms\n"
      "gain: predicted +60.0 %, measured +150.0 %\n"
      "The refitted profiles would choose tp=1 pp=1 dp=2 b=1 1f1b recompute=none\n"
      "gain: predicted +25.0 %, measured +25.0 %\n"
      "Of all plans they would choose one that was not run: tp=1 pp=1 dp=1 b=1 1f1b "
      "recompute=none, "
      "predicted 500 ms\n"
      "fastest measured: tp=1 pp=2 dp=1 b=1 1f1b recompute=none\n"
      "regret of the first choice (its time over the fastest): 150.0 %\n"
      "regret of the refitted choice (its time over the fastest): 100.0 %\n"
      "tuned plan: tp=1 pp=2 dp=1 b=1 1f1b recompute=none\n"
      "left as they were, since these plans spend too little time on them: attention (--tune also "
      "takes files of plans that do)\n");
}

TEST(TuningText, SaysWhatTiesAndWhatNobodyCanExplain) {
  Tuning tuning = made_up_tuning();
  // By the refit the last plan takes longer, though it measured faster.
  tuning.plans[2].corrected.predicted.iteration_time.value = Seconds(3.0);
  EXPECT_THAT(to_text(tuning),
              HasSubstr("\nbecause it ran faster; the refitted profiles do not explain why\n"
                        "gain: predicted -33.3 %, measured +150.0 %\n"));
  EXPECT_FALSE(nlohmann::json::parse(to_json(tuning)).contains("changed_term"));
  // 32 GPUs, eight in a node: links between nodes could have been measured.
  tuning.plans[0].plan.gpus = 32;
  EXPECT_THAT(to_text(tuning), HasSubstr("attention, transfer between nodes (--tune"));
  for (KnobFit& knob : tuning.fit.knobs) {
    knob.num_runs = 1;
  }
  EXPECT_THAT(to_text(tuning), testing::Not(HasSubstr("left as they were")));
  // The second ties with the first, and both with the fastest.
  tuning = made_up_tuning();
  tuning.plans[2] = tuning.plans[1];
  tuning.plans[2].run.report.measured_time = Seconds(1.99);
  tuning.plans[0].run.step_times = {1.5, 2.5, 3.5};
  EXPECT_THAT(
      to_text(tuning),
      HasSubstr(
          "The choice has not changed: tp=2 pp=1 dp=1 b=1 1f1b recompute=none\n"
          "The refitted profiles would choose tp=1 pp=1 dp=2 b=1 1f1b recompute=none\n"
          "gain: predicted +25.0 %, measured +25.0 %: a tie, as single steps differ by more\n"));
  EXPECT_THAT(
      to_text(tuning),
      HasSubstr("regret of the first choice (its time over the fastest): 25.6 % (a tie with "
                "the fastest)\n"
                "regret of the refitted choice (its time over the fastest): 0.5 % (a tie "
                "with the fastest)\n"));
  EXPECT_EQ(nlohmann::json::parse(to_json(tuning))["tie"], true);
}

TEST(TuningJson, HoldsEachFigureUnderItsName) {
  const nlohmann::json json = nlohmann::json::parse(to_json(made_up_tuning()));
  EXPECT_EQ(json["chosen_first"], 0);
  EXPECT_EQ(json["chosen_again"], 1);
  EXPECT_EQ(json["fastest"], 2);
  EXPECT_EQ(json["best"], 2);
  EXPECT_EQ(json["changed"], true);
  EXPECT_EQ(json["changed_term"], "tensor_parallel");
  EXPECT_EQ(json["tie"], false);
  EXPECT_EQ(json["not_run"]["tp"], 1);
  EXPECT_NEAR(json["regret_first_pct"], 150.0, 1e-9);
  EXPECT_NEAR(json["regret_again_pct"], 100.0, 1e-9);
  EXPECT_NEAR(json["predicted_gain_pct"], 60.0, 1e-9);
  EXPECT_NEAR(json["measured_gain_pct"], 150.0, 1e-9);
  const nlohmann::json& plan = json["plans"][2];
  EXPECT_EQ(plan["config"]["pp"], 2);
  EXPECT_EQ(plan["is_new"], true);
  EXPECT_NEAR(plan["predicted_s"], 1.5, 1e-9);
  EXPECT_NEAR(plan["refitted_s"], 1.25, 1e-9);
  EXPECT_NEAR(plan["measured_s"], 1.0, 1e-9);
  EXPECT_NEAR(plan["spread_s"], 0.01, 1e-9);
  EXPECT_EQ(plan["steps"], 3);
  EXPECT_EQ(json["corrections"].size(), 11U);
  EXPECT_EQ(
      json["corrections"][0],
      (nlohmann::json{{"knob", "products"}, {"factor", 2.5}, {"runs", 2}, {"at_bound", true}}));
  EXPECT_EQ(json["corrections"][1]["runs"], 0);
  // A choice that stays has no tie with itself.
  Tuning same = made_up_tuning();
  same.chosen_again = same.chosen_first;
  same.not_run.reset();
  const nlohmann::json without = nlohmann::json::parse(to_json(same));
  EXPECT_FALSE(without.contains("tie"));
  EXPECT_FALSE(without.contains("not_run"));
}

// The first plan runs twice, t seconds a step and then 1.2 t: the median of all is 1.1 t.
TEST(Tune, CountsTheStepsOfBothRunsOfTheFastest) {
  KnobFactors slow;
  for (const ProfileKnob knob : {ProfileKnob::kCollectiveLatency, ProfileKnob::kCollectiveRate,
                                 ProfileKnob::kMessageLatency, ProfileKnob::kMessageRate}) {
    slow[knob] = 100.0;
  }
  const PlanRunner machine = runner(with_factors(host_of_tuning(), slow));
  double first_time = 0.0;
  int call = 0;
  const PlanRunner run = [&](const std::vector<Plan>& plans) {
    ++call;
    std::vector<RanPlan> runs = machine(plans);
    RanPlan& again = runs.back();
    if (call == 1) {
      first_time = again.report.measured_time.value();
    }
    const double time = first_time * (call == 1 ? 1.0 : 1.2);
    again.step_times.assign(10, time);
    again.report.measured_time = Seconds(time);
    again.report.fastest = Seconds(time * 0.9);
    again.report.slowest = Seconds(time * 1.05);
    return runs;
  };
  const Tuning tuning = tune(list_of(host_of_tuning(), 1), 1, run, "a test");
  ASSERT_EQ(call, 2);
  const RunReport& report = tuning.plans[0].run.report;
  EXPECT_EQ(tuning.plans[0].run.step_times.size(), 20U);
  EXPECT_NEAR(report.measured_time.value(), 1.1 * first_time, 1e-9);
  EXPECT_NEAR(report.fastest.value(), 0.9 * first_time, 1e-9);
  EXPECT_NEAR(report.slowest.value(), 1.26 * first_time, 1e-9);
  EXPECT_EQ(report.execution.steps, 24);
  EXPECT_EQ(report.execution.requested_steps, 24);
  EXPECT_EQ(report.execution.warm_up, 4);
}

// A list may name a plan twice: two are run, the first and the third.
TEST(Tune, RunsEachPlanOnceAndNoMoreThanIsAskedFor) {
  PlansDocument list = list_of(host_of_tuning(), 4);
  ASSERT_GE(list.plans.size(), 3U);
  list.plans.insert(list.plans.begin(), list.plans.front());
  std::vector<std::string> first;
  const PlanRunner machine = runner(host_of_tuning());
  const PlanRunner run = [&](const std::vector<Plan>& plans) {
    if (first.empty()) {
      for (const Plan& plan : plans) {
        first.push_back(to_string(plan.config));
      }
    }
    return machine(plans);
  };
  (void)tune(list, 2, run, "a test");
  EXPECT_EQ(first, (std::vector<std::string>{to_string(list.plans[0].config),
                                             to_string(list.plans[2].config)}));
}

/// Returns options with one of everything that can be pinned.
SearchOptions pinned_everywhere() {
  const auto number = [](std::int64_t value) { return IntegerRanges(value); };
  return {.gpus = 48,
          .space = {.tp = number(2),
                    .pp = number(3),
                    .dp = number(4),
                    .cp = number(5),
                    .ep = number(6),
                    .etp = number(7),
                    .vpp = number(8),
                    .micro_batch_size = number(9),
                    .zero_stage = number(0),
                    .schedules = {ScheduleKind::kGPipe, ScheduleKind::kZbV},
                    .ignores_stack_support = true,
                    .allow_stale_weights = false,
                    .recompute = {Recompute::kFull},
                    .recompute_modules = RecomputeModules{RecomputeModule::kMlp},
                    .recompute_method = RecomputeMethod::kEvery,
                    .recompute_num_layers = 11,
                    .sequence_parallel = true,
                    .dp_replicate = number(10),
                    .reshard_after_forward = false,
                    .rank_orders = {RankOrder::kTpCpEpPpDp},
                    .offload = {Offload::kActivations},
                    .offload_num_layers = 12},
          .memory_headroom = 0.25,
          .objective = Objective::kCost,
          .num_best = 13,
          .tie = 0.0625};
}

TEST(SearchOptionsJson, NamesEveryPinAndReadsItBack) {
  const nlohmann::json expected = {{"gpus", 48},
                                   {"memory_headroom", 0.25},
                                   {"objective", "cost"},
                                   {"num_best", 13},
                                   {"tie", 0.0625},
                                   {"tp", "2"},
                                   {"pp", "3"},
                                   {"dp", "4"},
                                   {"cp", "5"},
                                   {"ep", "6"},
                                   {"etp", "7"},
                                   {"vpp", "8"},
                                   {"micro_batch_size", "9"},
                                   {"zero_stage", "0"},
                                   {"dp_replicate", "10"},
                                   {"reshard_after_forward", false},
                                   {"schedules", {"gpipe", "zb-v"}},
                                   {"any_stack", true},
                                   {"allow_stale_weights", false},
                                   {"recompute", {"full"}},
                                   {"recompute_modules", "mlp"},
                                   {"recompute_method", "every"},
                                   {"recompute_num_layers", 11},
                                   {"sequence_parallel", true},
                                   {"offload", {"activations"}},
                                   {"offload_num_layers", 12},
                                   {"rank_orders", {"tp-cp-ep-pp-dp"}}};
  const std::string text = dump(pinned_everywhere());
  EXPECT_EQ(nlohmann::json::parse(text), expected);
  const auto again = parse<SearchOptions>(text);
  EXPECT_EQ(dump(again), text);
  EXPECT_EQ(again.space.offload_num_layers, 12);
  EXPECT_EQ(again.space.reshard_after_forward, false);
  // Options without pins have seven keys: the two switches are among them.
  EXPECT_EQ(nlohmann::json::parse(dump(SearchOptions{.gpus = 8})).size(), 7U);
}

// Files of plans are a list where they are of one job: model, batch, cluster, stack and GPUs.
TEST(PlansDocument, IsMadeOfPlansOfOneJob) {
  const TemporaryDirectory directory;
  const auto written = [&](const std::string& name, const Scenario& scenario, std::int64_t gpus) {
    std::filesystem::path path = directory.path() / name;
    write_plan(path, make_plan({scenario, layout(1, 1, 1)}, gpus, 0.25, Calibration{}));
    return path;
  };
  const auto first = written("first.json", host_of_tuning(), 2);
  const auto same = written("same.json", host_of_tuning(), 2);
  const PlansDocument list = read_plan_files({first, same});
  EXPECT_EQ(list.plans.size(), 2U);
  EXPECT_EQ(list.options.gpus, 2);
  EXPECT_EQ(list.options.memory_headroom, 0.25);
  EXPECT_EQ(list.scenario, host_of_tuning());
  EXPECT_EQ(read_plans_document(first).plans.size(), 1U);
  const auto other_gpus = written("gpus.json", host_of_tuning(), 3);
  EXPECT_EQ(message_of([&] {
              return read_plan_files({first, other_gpus});
            }),
            other_gpus.string() +
                ": expected a plan of the model, batch, cluster, stack and GPUs of " +
                first.string());
  const auto other_batch = written("batch.json", host_scenario(small_model(128, 128), 8), 2);
  EXPECT_THAT(message_of([&] {
                return read_plan_files({first, other_batch});
              }),
              HasSubstr("expected a plan of the model, batch"));
}

}  // namespace
}  // namespace ptdp
