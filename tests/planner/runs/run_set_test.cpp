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

/// Runs of a host whose plans took so many times as long as predicted.
std::vector<NamedReport> runs_off_by(const std::vector<double>& ratios) {
  const Scenario host = host_scenario(small_model(64, 64), 8);
  const std::vector<ParallelConfig> configs = {layout(1, 1, 1), layout(2, 1, 1), layout(1, 2, 1)};
  std::vector<NamedReport> runs;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    runs.push_back(run_on(host, host, configs[i], "run" + std::to_string(i) + ".json"));
    RunReport& report = runs.back().report;
    report.plan.gpus = 2;
    report.measured_time = report.predicted_time.value * ratios[i];
    report.terms[0].measured = report.terms[0].predicted + report.measured_time * 0.1;
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
  EXPECT_THAT(run_text(report),
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
  EXPECT_THAT(to_table(set), HasSubstr("not compared: run1.json: Not predicted"));
  const nlohmann::json json = nlohmann::json::parse(to_json(set));
  EXPECT_EQ(json["schema"], "ptdp.runs/1");
  EXPECT_EQ(json["runs"].size(), 1U);
}

}  // namespace
}  // namespace ptdp
