// Tests of several runs that are compared.
#include "planner/runs/run_set.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/planner/fake_machine.h"

namespace ptdp {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// By hand: pairs (1.0, 1.05) is a tie; (1.0, 1.2), (1.05, 1.2) differ by more than a tenth. The
// predictions have the last one first: both pairs are wrong, and choosing it costs 20 %.
TEST(OrderOf, CountsPairsThatDifferAndTheRegret) {
  const PlanOrder order = order_of({{3.0, 1.0}, {2.0, 1.05}, {1.0, 1.2}});
  EXPECT_EQ(order.runs, 3);
  EXPECT_EQ(order.pairs, 2);
  EXPECT_EQ(order.ordered, 0);
  EXPECT_NEAR(order.regret, 0.2, 1e-12);
}

TEST(OrderOf, HasNoRegretWhereTheBestIsChosen) {
  const PlanOrder order = order_of({{1.0, 1.0}, {1.2, 1.05}, {1.5, 1.2}});
  EXPECT_EQ(order.ordered, 2);
  EXPECT_EQ(order.regret, 0.0);
}

TEST(OrderOf, TakesEqualPredictionsForNoOrder) {
  EXPECT_EQ(order_of({{1.0, 1.0}, {1.0, 2.0}}).ordered, 0);
}

/// Returns runs of a host whose plans took `ratios` times as long as predicted.
std::vector<NamedReport> runs_off_by(const std::vector<double>& ratios) {
  const Scenario host = host_scenario(small_model(64, 64), 8);
  const std::vector<ParallelConfig> configs = {layout(1, 1, 1), layout(2, 1, 1), layout(1, 2, 1)};
  std::vector<NamedReport> runs;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    runs.push_back(run_on(host, host, configs[i], "run" + std::to_string(i) + ".json"));
    RunReport& report = runs.back().report;
    report.plan.gpus = 2;
    report.measured_time = report.predicted_time.value * ratios[i];
    report.terms[0].time.measured = report.terms[0].time.predicted + report.measured_time * 0.1;
  }
  return runs;
}

// Ratios of 1, 2 and 4: errors 0, -50 and -75 %.
TEST(CompareRuns, SummarisesErrorsAndTerms) {
  const RunSet set = compare_runs(runs_off_by({1.0, 2.0, 4.0}));
  EXPECT_NEAR(set.errors.mean_absolute, 1.25 / 3.0, 1e-9);
  EXPECT_NEAR(set.errors.bias, -1.25 / 3.0, 1e-9);
  EXPECT_EQ(set.terms.front().name, "matmul");
  EXPECT_NEAR(set.terms.front().bias, -0.1, 1e-9);
  EXPECT_NEAR(set.terms.front().mean_absolute, 0.1, 1e-9);
  ASSERT_EQ(set.orders.size(), 1U);
  EXPECT_EQ(set.orders.front().runs, 3);
}

// Over NCCL alone: files of other transports have no calls.
TEST(RunReport, KeepsWhatTheTransportExpectsOfCalls) {
  RunReport report = runs_off_by({1.0}).front().report;
  EXPECT_THAT(to_json(report), Not(HasSubstr("\"calls\"")));
  EXPECT_TRUE(parse_run(to_json(report), "run.json").calls.empty());
  report.calls = {{.group = "tensor",
                   .collective = "all-reduce",
                   .size = Bytes(4096.0),
                   .predicted = Seconds(2e-3),
                   .estimated = Seconds(3e-3),
                   .measured = Seconds(4e-3)}};
  const RunReport again = parse_run(to_json(report), "run.json");
  ASSERT_EQ(again.calls.size(), 1U);
  EXPECT_EQ(again.calls[0].group, "tensor");
  EXPECT_EQ(again.calls[0].collective, "all-reduce");
  EXPECT_EQ(again.calls[0].size, Bytes(4096.0));
  EXPECT_EQ(again.calls[0].predicted, Seconds(2e-3));
  EXPECT_EQ(again.calls[0].estimated, Seconds(3e-3));
  EXPECT_EQ(again.calls[0].measured, Seconds(4e-3));
  EXPECT_THAT(to_text(report),
              ContainsRegex("tensor all-reduce, 0.0041 MB +2 ms +3 ms +4 ms +-50.0 %"));
}

TEST(CompareRuns, KeepsJobsApart) {
  std::vector<NamedReport> runs = runs_off_by({1.0, 1.0, 1.0});
  runs[2].report.plan.scenario.job.global_batch_size = 16;
  const RunSet set = compare_runs(runs);
  ASSERT_EQ(set.orders.size(), 1U);
  EXPECT_EQ(set.orders.front().runs, 2);
}

TEST(CompareRuns, NamesThoseOfWhichNothingIsPredicted) {
  std::vector<NamedReport> runs = runs_off_by({1.0, 1.0});
  runs[1].report.predicted_time = {};
  runs[1].report.execution.basis = "Not predicted: the layers are shrunk";
  const RunSet set = compare_runs(runs);
  EXPECT_EQ(set.runs.size(), 1U);
  EXPECT_THAT(to_text(set), HasSubstr("not compared: run1.json: Not predicted"));
  const nlohmann::json json = nlohmann::json::parse(to_json(set));
  EXPECT_EQ(json["schema"], "ptdp.runs/1");
  EXPECT_EQ(json["runs"].size(), 1U);
}

/// Returns two plans of one job, predicted at 8 and 10 s and measured at 10 and 8 s.
std::vector<NamedReport> two_runs() {
  std::vector<NamedReport> runs = runs_off_by({1.0, 1.0});
  const auto set = [](RunReport& report, double predicted, double measured) {
    report.predicted_time.value = Seconds(predicted);
    report.measured_time = Seconds(measured);
  };
  set(runs[0].report, 8.0, 10.0);
  set(runs[1].report, 10.0, 8.0);
  runs[0].report.terms = {{"matmul", Seconds(6.0), Seconds(5.0)},
                          {"bubble", Seconds(0.0), Seconds(4.0)}};
  runs[1].report.terms = {{"matmul", Seconds(2.0), Seconds(6.0)}};
  return runs;
}

// Errors of -20 and +25 %. Of matmul 5/10 and 6/8 were measured, 62.5 % in the mean; it is off by
// +1/10 and -4/8: bias -20 %, without signs 30 %. Of the bubble, in one run of two, half of 4/10.
TEST(CompareRuns, TellsSharesAndErrorsOfTermsInPercentOfTheIteration) {
  const RunSet set = compare_runs(two_runs());
  const nlohmann::json json = nlohmann::json::parse(to_json(set));
  EXPECT_NEAR(json["runs"][0]["error_pct"], -20.0, 1e-9);
  EXPECT_EQ(json["runs"][1]["run"], "run1.json");
  EXPECT_NEAR(json["runs"][1]["predicted_s"], 10.0, 1e-9);
  EXPECT_NEAR(json["runs"][1]["measured_s"], 8.0, 1e-9);
  EXPECT_EQ(json["runs"][1]["config"]["tp"], 2);
  EXPECT_NEAR(json["mape_pct"], 22.5, 1e-9);
  EXPECT_NEAR(json["max_pct"], 25.0, 1e-9);
  EXPECT_NEAR(json["bias_pct"], 2.5, 1e-9);
  EXPECT_EQ(json["terms"][0]["term"], "matmul");
  EXPECT_NEAR(json["terms"][0]["share_pct"], 62.5, 1e-9);
  EXPECT_NEAR(json["terms"][0]["bias_pct"], -20.0, 1e-9);
  EXPECT_NEAR(json["terms"][0]["mean_absolute_pct"], 30.0, 1e-9);
  EXPECT_EQ(json["terms"][1]["term"], "bubble");
  EXPECT_NEAR(json["terms"][1]["share_pct"], 20.0, 1e-9);
  EXPECT_NEAR(json["terms"][1]["bias_pct"], -20.0, 1e-9);
  EXPECT_EQ(json["orders"][0]["runs"], 2);
  EXPECT_EQ(json["orders"][0]["pairs"], 1);
  EXPECT_EQ(json["orders"][0]["ordered"], 0);
  EXPECT_NEAR(json["orders"][0]["regret_pct"], 25.0, 1e-9);  // 10 s in place of 8
  EXPECT_EQ(
      to_text(set),
      "run                            predicted    measured     error  plan\n"
      "run0.json                            8 s        10 s   -20.0 %  small tp=1 pp=1 dp=1 b=1 "
      "1f1b recompute=none\n"
      "run1.json                           10 s         8 s   +25.0 %  small tp=2 pp=1 dp=1 b=1 "
      "1f1b recompute=none\n"
      "2 runs: mean absolute error 22.5 %, median 22.5 %, largest 25.0 %, bias +2.5 %\n"
      "\n"
      "term                            measured        bias  mean error   in % of the iteration\n"
      "matmul                            62.5 %     -20.0 %      30.0 %\n"
      "bubble                            20.0 %     -20.0 %      20.0 %\n"
      "\n"
      "small, batch 8, sequence 64, fp32, 2 GPUs of host: 2 plans; 1 pair differing by more than "
      "10 %, 0 in the measured order; the plan predicted fastest took 25.0 % longer than the "
      "fastest (regret)\n");
}

// A tenth is no clear difference, a bit more is.
TEST(OrderOf, CountsDifferencesBeyondATenth) {
  EXPECT_EQ(order_of({{1.0, 1.0}, {2.0, 1.099}}).pairs, 0);
  EXPECT_EQ(order_of({{1.0, 1.0}, {2.0, 1.101}}).pairs, 1);
  EXPECT_EQ(order_of({{1.0, 1.101}, {2.0, 1.0}}).pairs, 1);
  EXPECT_EQ(order_of({}).regret, 0.0);
}

// Whatever changes the job: its name, batch, sequences, precision, GPUs or cluster.
TEST(CompareRuns, OrdersPlansOfOneJobAlone) {
  const auto num_orders = [](const auto& change) {
    std::vector<NamedReport> runs = two_runs();
    change(runs[1].report.plan);
    return compare_runs(runs).orders.size();
  };
  EXPECT_EQ(num_orders([](Plan&) {}), 1U);
  EXPECT_EQ(num_orders([](Plan& plan) { plan.scenario.stack.name = "other"; }), 1U);
  EXPECT_EQ(num_orders([](Plan& plan) { plan.scenario.job.model_name = "other"; }), 0U);
  EXPECT_EQ(num_orders([](Plan& plan) { ++plan.scenario.job.global_batch_size; }), 0U);
  EXPECT_EQ(num_orders([](Plan& plan) { ++plan.scenario.job.model.seq_length; }), 0U);
  EXPECT_EQ(num_orders([](Plan& plan) { plan.scenario.stack.precision = Precision::kBf16; }), 0U);
  EXPECT_EQ(num_orders([](Plan& plan) { ++plan.gpus; }), 0U);
  EXPECT_EQ(num_orders([](Plan& plan) { plan.scenario.cluster.name = "other"; }), 0U);
}

}  // namespace
}  // namespace ptdp
