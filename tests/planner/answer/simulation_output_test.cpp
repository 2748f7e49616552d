// Tests of the report of a simulated plan, and of compared schedules.
#include "planner/answer/simulation_output.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/planner/fake_machine.h"

namespace ptdp {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Returns a plan with two stages and 8 microbatches.
Plan two_stages() {
  return make_plan({host_scenario(small_model(64, 32), 8), layout(1, 2, 1)}, 2, 0.0, Calibration{});
}

/// Returns the text about the difference of a simulation that takes `ratio` times as long as
/// planned.
std::string difference_of(double ratio, const SimulationContext& context = {},
                          Plan plan = two_stages()) {
  const PlanSimulation simulation = simulate_plan(two_stages(), {});
  plan.predicted.iteration_time.value = simulation.step * (1.0 / ratio);
  const nlohmann::json json = nlohmann::json::parse(to_json(plan, context, simulation));
  return json.value("difference", "");
}

TEST(SimulationReport, SaysWhomToBelieveBeyondTwoPercent) {
  EXPECT_EQ(difference_of(1.019), "");
  EXPECT_EQ(difference_of(0.981), "");
  EXPECT_EQ(
      difference_of(1.25),
      "The simulated step is 25.0 % longer than the planned one: believe the simulation, which "
      "walks through all 8 microbatches; the plan continues the rhythm of the first ones.");
  EXPECT_THAT(difference_of(0.75),
              StartsWith("The simulated step is 25.0 % shorter than the planned one: believe the "
                         "simulation"));
  Plan other = two_stages();
  other.tool_version = "0.0.9";
  EXPECT_THAT(difference_of(1.25, {}, other),
              EndsWith("which takes the durations of ptdp " PTDP_VERSION
                       "; ptdp-plan 0.0.9 made the plan."));
  other = two_stages();
  other.config.schedule = ScheduleKind::kPipeDream;
  EXPECT_THAT(difference_of(1.25, {}, other), HasSubstr(": believe the plan, which counts waits "
                                                        "between stages"));
  other = two_stages();
  other.predicted.breakdown.core_contention = Seconds(1e-6);
  EXPECT_THAT(difference_of(1.25, {}, other), HasSubstr(": believe the plan, which counts waits of "
                                                        "ranks for a core"));
}

// What was changed on purpose needs no explanation.
TEST(SimulationReport, ComparesWithThePlanWhatIsAsPlannedAlone) {
  EXPECT_EQ(difference_of(1.25, {.is_as_planned = false}), "");
  EXPECT_EQ(difference_of(1.25, {.options = {.shares_links = false}}), "");
  EXPECT_EQ(difference_of(1.25, {.options = {.stragglers = {{.rank = 1, .factor = 2.0}}}}), "");
  EXPECT_EQ(difference_of(1.25, {.options = {.jitter = {.sigma = 0.1}}}), "");
  EXPECT_NE(difference_of(1.25, {.has_orders = true}), "");
}

/// Returns the text of a simulation whose step, path, elasticities and memory are made up.
std::string made_up_text(const SimulationContext& context) {
  Plan plan = two_stages();
  PlanSimulation simulation = simulate_plan(plan, {});
  const Seconds makespan = simulation.timeline.times.makespan();
  simulation.step = Seconds(2.5);
  simulation.bubble = Seconds(0.5);
  plan.predicted.iteration_time.value = Seconds(2.0);
  plan.memory.stages[0] = {.weights = gibibytes(3.0)};
  plan.memory.heaviest_rank = 0;
  simulation.critical_path.terms = {};
  simulation.critical_path.terms[1] = 0.75 * makespan;
  simulation.critical_path.terms[12] = 0.25 * makespan;
  simulation.elasticities = {0.2, 0.004, 0.5, 0.3, 0.6};
  simulation.memory[0] = {.peak = gibibytes(1.5), .peak_time = Seconds(0.5)};
  simulation.memory[1] = {.peak = gibibytes(2.5), .peak_time = Seconds(0.75)};
  return to_text(plan, context, simulation,
                 {.from = 0.25 * makespan, .to = makespan, .last_rank = 1});
}

TEST(SimulationReport, TellsStepPathElasticitiesAndMemory) {
  const std::string text = made_up_text({});
  EXPECT_THAT(text,
              StartsWith("small on 2 GPUs with tp=1 pp=2 dp=1 b=1 1f1b recompute=none: a step "
                         "takes 2.5 s simulated, 2 s planned (+25.0 %).\nThe simulated step is"));
  EXPECT_THAT(text, Not(HasSubstr("\nWith\n")));
  EXPECT_THAT(text, HasSubstr("  bubble                 500 ms (20.0 %) in which the rank that "
                              "paces the pipeline waits for others\n  not computing "));
  const std::size_t path = text.find("\nCritical path: ");
  const std::string terms = text.substr(path, text.find("\n\n", path) - path);
  EXPECT_EQ(std::count(terms.begin(), terms.end(), '\n'), 3) << terms;
  EXPECT_THAT(terms, HasSubstr("\n  backward "));
  EXPECT_THAT(terms, HasSubstr("  75.0 %  #######################\n  waiting "));
  EXPECT_THAT(text, HasSubstr("makes the step longer by\n"
                              "  rank 4                 0.60 %\n"
                              "  rank 2                 0.50 %\n"
                              "  rank 3                 0.30 %\n\n"));
  EXPECT_THAT(text, HasSubstr("\nMemory: 2.50 of "));
  EXPECT_THAT(text, HasSubstr(" GiB on rank 1 at 750 ms; the plan counts 3.00\n"));
  EXPECT_THAT(text, HasSubstr("\nTimeline from "));
  EXPECT_THAT(text, HasSubstr("; --from and --to choose another part\n"));
}

TEST(SimulationReport, BeginsWithWhatIsNotAsItWasPlanned) {
  const std::string text = made_up_text({.options = {.shares_links = false,
                                                     .stragglers = {{.rank = 1, .factor = 1.5}},
                                                     .jitter = {.sigma = 0.1, .seed = 7}}});
  EXPECT_THAT(text, HasSubstr(": a step takes 2.5 s simulated, while the plan as it is predicts "
                              "2 s.\n"
                              "With\n"
                              "  rank 1 taking 1.5 times as long to compute\n"
                              "  every action taking exp(0.1 z) times as long, z normal, seed 7\n"
                              "  every transfer having its links to itself\n"));
}

TEST(SimulationReport, WritesOrdersWhereTheyAreAskedFor) {
  const PlanSimulation simulation = simulate_plan(two_stages(), {});
  const auto json = [&](bool has_orders) {
    return nlohmann::json::parse(to_json(two_stages(),
                                         {.options = {.stragglers = {{.rank = 1, .factor = 1.5}},
                                                      .jitter = {.sigma = 0.5, .seed = 9}},
                                          .has_orders = has_orders},
                                         simulation));
  };
  EXPECT_FALSE(json(false).contains("orders"));
  EXPECT_EQ(json(true)["orders"].size(), 2U);
  EXPECT_EQ(json(true)["stragglers"],
            (nlohmann::json::array({nlohmann::json{{"rank", 1}, {"factor", 1.5}}})));
  EXPECT_EQ(json(true)["jitter_sigma"], 0.5);
  EXPECT_EQ(json(true)["jitter_seed"], "9");
  EXPECT_EQ(json(true)["microbatches"], 8);
  EXPECT_EQ(json(true)["pp"], 2);
  // A step is no shorter than its path, term by term.
  double sum = 0.0;
  const nlohmann::json whole = json(false);
  for (const auto& [name, seconds] : whole["critical_path_s"].items()) {
    EXPECT_EQ(name.find(' '), std::string::npos);
    sum += seconds.get<double>();
  }
  EXPECT_NEAR(sum, whole["makespan"].get<double>(), 1e-12);
}

/// Returns comparisons with a plan of 1F1B: two schedules that are slower or faster, two that
/// cannot be.
std::vector<ScheduleComparison> four_schedules() {
  return {{.schedule = "zb-v", .vpp = 2, .conflict = "no chunks"},
          {.schedule = "gpipe",
           .vpp = 1,
           .step = Seconds(12.5),
           .makespan = Seconds(12.0),
           .bubble = Seconds(5.0),
           .not_computing = Seconds(6.0),
           .peak_memory = gibibytes(8.0),
           .planned_memory = gibibytes(9.0),
           .fits = false,
           .is_run_by_stack = false},
          {.schedule = "1f1b",
           .vpp = 1,
           .step = Seconds(10.0),
           .makespan = Seconds(9.5),
           .bubble = Seconds(2.5),
           .not_computing = Seconds(3.8),
           .peak_memory = gibibytes(3.0),
           .planned_memory = gibibytes(4.0),
           .fits = true,
           .is_run_by_stack = true},
          {.schedule = "dualpipe", .vpp = 1, .conflict = "odd"},
          {.schedule = "pipedream",
           .vpp = 1,
           .step = Seconds(8.0),
           .makespan = Seconds(9.0),
           .peak_memory = gibibytes(3.5),
           .planned_memory = gibibytes(3.5),
           .fits = true,
           .is_run_by_stack = true,
           .changes_semantics = true}};
}

// 8 and 12.5 s are 20 % less and 25 % more than the 10 s of the plan's own schedule.
TEST(ScheduleTable, ListsTheFastestFirstWithItsRemarks) {
  const std::string text = to_text(two_stages(), four_schedules());
  EXPECT_EQ(text,
            "small on 2 GPUs with tp=1 pp=2 dp=1 b=1 1f1b recompute=none, simulated with every "
            "schedule\n\n"
            "schedule       vpp        step            bubble    memory\n"
            "pipedream        1         8 s  -20.0 %    0.0 %   3.5 GiB  stale weights: another "
            "optimizer; never drains between steps\n"
            "1f1b             1        10 s    0.0 %   25.0 %   3.0 GiB  the plan's\n"
            "gpipe            1      12.5 s  +25.0 %   40.0 %   8.0 GiB  does not fit: 9.0 GiB "
            "planned; not run by ptdp-cpu\n"
            "zb-v             -  no chunks\n"
            "dualpipe         -  odd\n");
}

// As files have them: in the order of the table of generators.
TEST(ScheduleJson, HoldsEachFigureUnderItsName) {
  const nlohmann::json json = nlohmann::json::parse(to_json(two_stages(), four_schedules()));
  EXPECT_EQ(json["schedule"], "1f1b");
  EXPECT_EQ(json["pp"], 2);
  EXPECT_EQ(json["microbatches"], 8);
  ASSERT_EQ(json["schedules"].size(), 5U);
  EXPECT_EQ(json["schedules"][0],
            (nlohmann::json{{"schedule", "zb-v"}, {"vpp", 2}, {"conflict", "no chunks"}}));
  EXPECT_EQ(json["schedules"][1], (nlohmann::json{{"schedule", "gpipe"},
                                                  {"vpp", 1},
                                                  {"step_s", 12.5},
                                                  {"makespan", 12.0},
                                                  {"bubble", 5.0},
                                                  {"bubble_ratio", 0.4},
                                                  {"not_computing", 6.0},
                                                  {"not_computing_ratio", 0.5},
                                                  {"memory_peak_GiB", 8.0},
                                                  {"memory_planned_GiB", 9.0},
                                                  {"fits", false},
                                                  {"run_by_stack", false},
                                                  {"changes_semantics", false}}));
  EXPECT_EQ(json["schedules"][4]["changes_semantics"], true);
  EXPECT_EQ(json["schedules"][4]["run_by_stack"], true);
}

}  // namespace
}  // namespace ptdp
