#include "planner/profile_refit/tuning.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "cost_model/measured/quantile.h"
#include "planner/answer/planning.h"
#include "tests/planner/fake_machine.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

Scenario host_of_tuning() {
  return host_scenario(small_model(128, 128), 16);
}

PlanList list_of(const Scenario& believed, int num_best) {
  const SearchOptions options{.gpus = 2, .num_best = num_best};
  const PlanningResult result = plan_training(believed, options, CalibrationSource::none());
  return {.scenario = believed, .options = options, .plans = result.plans};
}

/// Takes as long as `machine` predicts, every step; counts its calls.
PlanRunner runner(const Scenario& machine, int* calls = nullptr) {
  return [machine, calls](const std::vector<Plan>& plans) {
    if (calls != nullptr) {
      ++*calls;
    }
    std::vector<PlanRun> runs;
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

/// The least time that the machine's own profile finds.
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
  EXPECT_THAT(to_table(tuning), HasSubstr("The choice has not changed"));
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
  EXPECT_THAT(to_table(tuning), HasSubstr("The choice has changed"));
}

TEST(Tune, ComesNearTheOptimumOfMachinesThatAreNotAsBelieved) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> logarithm(-std::log(10.0), std::log(10.0));
  for (int machine = 0; machine < 20; ++machine) {
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

/// A plan whose steps took these times.
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
  const PlanList list = list_of(host_of_tuning(), 1);
  KnobFactors slow;
  for (const ProfileKnob knob : {ProfileKnob::kCollectiveLatency, ProfileKnob::kCollectiveRate,
                                 ProfileKnob::kMessageLatency, ProfileKnob::kMessageRate}) {
    slow[knob] = 100.0;
  }
  const PlanRunner machine = runner(with_factors(host_of_tuning(), slow));
  const PlanRunner run = [&](const std::vector<Plan>& plans) {
    std::vector<PlanRun> runs = machine(plans);
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
  const std::string text = to_table(tuning);
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
  EXPECT_THAT(to_table(tuning),
              HasSubstr("did not run: " + to_string(tuning.not_run->config) + ", predicted "));
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
  PlanList list = list_of(host_of_tuning(), 1);
  list.plans = {make_plan(host_of_tuning(), 2, 0.0, layout(1, 1, 1), Calibration{})};
  list.options.pins.tp = IntegerRanges(1);
  list.options.pins.pp = IntegerRanges(1);
  list.options.pins.dp = IntegerRanges(1);
  EXPECT_THAT(to_table(tune(list, 1, runner(host_of_tuning()), "a test")),
              HasSubstr("not measured by these plans, and believed as before: latency of "
                        "collectives, transfer of collectives, latency of messages, transfer of "
                        "messages"));
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

TEST(PlanList, IsReadAsItWasWritten) {
  SearchOptions options{.gpus = 2, .num_best = 3};
  options.pins.tp = IntegerRanges::parse("1,2:4", 1, 8, "tp");
  options.pins.cp = IntegerRanges(1);
  options.pins.recompute = {Recompute::kNone, Recompute::kFull};
  options.pins.sequence_parallel = false;
  options.pins.schedules = {ScheduleKind::kOneFOneB};
  options.objective = Objective::kCost;
  const PlanningResult result = plan_training(host_of_tuning(), options, CalibrationSource::none());
  const PlanList list = parse_plan_list(to_json(result), "plans.json");
  EXPECT_EQ(list.options.pins.tp, options.pins.tp);
  EXPECT_EQ(list.options.pins.cp, options.pins.cp);
  EXPECT_EQ(list.options.pins.recompute, options.pins.recompute);
  EXPECT_EQ(list.options.pins.sequence_parallel, options.pins.sequence_parallel);
  EXPECT_EQ(list.options.pins.schedules, options.pins.schedules);
  EXPECT_TRUE(list.options.pins.dp.is_any());
  EXPECT_EQ(list.options.objective, Objective::kCost);
  ASSERT_EQ(list.plans.size(), result.plans.size());
  for (std::size_t i = 0; i < list.plans.size(); ++i) {
    EXPECT_EQ(to_json(list.plans[i]), to_json(result.plans[i]));
  }
}

TEST(PlanList, RefusesWhatWasChanged) {
  const PlanningResult result =
      plan_training(host_of_tuning(), {.gpus = 2, .num_best = 1}, CalibrationSource::none());
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(to_json(result));
  const auto refusal = [](const nlohmann::ordered_json& edited) {
    return message_of([&] { return parse_plan_list(edited.dump(), "plans.json"); });
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

}  // namespace
}  // namespace ptdp
