// Tests of measured runs that are costed, and of their errors.
#include "planner/accuracy/costed_runs.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "planner/accuracy/profile_cache.h"
#include "planner/accuracy/validation_report.h"
#include "tests/planner/costed_runs.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

constexpr const char* kRunsHeader =
    "id,layers,hidden,heads,vocab,seq,cluster_key,stack_key,tp,pp,dp,vpp,mbs,gbs,recompute,"
    "iter_time_best_s,holdout_group,dp_overlap\n";

CostedRuns costed(const std::string& rows) {
  return cost_runs(read_measured_runs(CsvTable::from_text(kRunsHeader + rows, "runs.csv")));
}

TEST(CostRuns, SkipWhatTheyCannotCostAndSayWhy) {
  const CostedRuns runs = costed(
      "a,24,2304,24,51200,2048,selene-a100,megatron-lm-2021,1,1,32,1,16,512,full,3.5,g,y\n"
      "b,24,2304,24,51200,2048,atlantis,megatron-lm-2021,1,1,32,1,16,512,full,3.5,g,y\n"
      "c,24,2304,24,51200,2048,selene-a100,megatron-lm-2021,5,1,32,1,16,512,full,3.5,g,y\n"
      "d,24,2304,24,51200,2048,selene-a100,megatron-lm-2021,1,1,32,1,?,512,full,3.5,g,y\n"
      "e,24,2304,24,51200,2048,dgx2-v100,megatron-core-2024,1,1,32,1,16,512,full,3.5,g,y\n");
  ASSERT_EQ(runs.costed.size(), 1U);
  EXPECT_EQ(runs.costed.front().run.id, "a");
  ASSERT_EQ(runs.skipped.size(), 4U);
  EXPECT_THAT(runs.skipped[0].reason, HasSubstr("mbs is not given"));
  EXPECT_THAT(runs.skipped[1].reason, HasSubstr("unknown cluster \"atlantis\""));
  EXPECT_THAT(runs.skipped[2].reason, HasSubstr("heads not divisible by tp"));
  EXPECT_THAT(runs.skipped[3].reason, HasSubstr("v100"));
}

// How GPUs share sequences is the stack's to say; two cannot share 25 tokens.
TEST(CostRuns, OfSharedSequencesAreThoseThatTheStackRuns) {
  const auto runs = [](const std::string& seq, const std::string& stack) {
    const std::string rows =
        "2,a,24,2304,24,51200," + seq + ",selene-a100," + stack + ",1,1,32,1,16,512,full,3.5,g,y\n";
    return cost_runs(read_measured_runs(
        CsvTable::from_text("cp," + std::string(kRunsHeader) + rows, "runs.csv")));
  };
  EXPECT_EQ(runs("2048", "megatron-core-2024").costed.size(), 1U);
  EXPECT_THAT(runs("2048", "megatron-lm-2021").skipped.at(0).reason,
              HasSubstr("context parallelism is not run"));
  EXPECT_THAT(runs("25", "megatron-core-2024").skipped.at(0).reason,
              HasSubstr("not divisible by cp"));
}

// A GPU of 80 GiB has all of them in use at most.
TEST(CostRuns, SkipWhatUsesMoreMemoryThanTheGpuHas) {
  const auto runs = [](const std::string& memory) {
    const std::string row =
        memory +
        ",a,24,2304,24,51200,2048,selene-a100,megatron-lm-2021,1,1,32,1,16,512,full,3.5,g,y\n";
    return cost_runs(read_measured_runs(
        CsvTable::from_text("memory_GB," + std::string(kRunsHeader) + row, "runs.csv")));
  };
  EXPECT_EQ(runs("80").costed.size(), 1U);
  EXPECT_EQ(runs("2000").skipped.at(0).reason,
            "memory_GB: expected at most the 80 of the row's GPU, got 2000");
}

TEST(ScenarioOf, TakesTheRowsWordForTheWayToExperts) {
  const MeasuredRuns runs = read_measured_runs(CsvTable::from_text(
      "expert_dispatch,expert_overlap," + std::string(kRunsHeader) +
          ",y,a,24,2304,24,51200,2048,dgx-h100,megatron-bridge-2025,1,1,32,1,16,512,full,3.5,g,y\n"
          "all-to-all,,b,24,2304,24,51200,2048,dgx-h100,megatron-bridge-2025,1,1,32,1,16,512,full,"
          "3.5,g,y\n",
      "runs.csv"));
  ProfileCache profiles;
  const StackSpec overlapped = profiles.scenario_of(runs.runs.at(0)).stack;
  EXPECT_EQ(overlapped.expert_dispatch, ExpertDispatch::kHierarchical);
  EXPECT_TRUE(overlapped.expert_overlap);
  const StackSpec plain = profiles.scenario_of(runs.runs.at(1)).stack;
  EXPECT_EQ(plain.expert_dispatch, ExpertDispatch::kAllToAll);
  EXPECT_FALSE(plain.expert_overlap);
  EXPECT_TRUE(takes_as_long(overlapped, plain));
}

// Shipped clusters are told apart by their names and a list of twins, which must say what their
// files say. A changed cluster is compared with the files, whatever it is called.
TEST(ProfileCache, KnowsWhichShippedClustersTakeAsLong) {
  ProfileCache profiles;
  Scenario scenario{.stack = find_stack("megatron-lm-2021")};
  const std::vector<std::string> names = list_profiles(ProfileKind::kCluster);
  for (const std::string& name : names) {
    scenario.cluster = find_cluster(name);
    for (const std::string& other : names) {
      EXPECT_EQ(profiles.is_place_of(other, scenario.stack.name, scenario),
                takes_as_long(find_cluster(other), scenario.cluster))
          << name << ' ' << other;
    }
  }
  scenario.cluster = find_cluster("selene-a100");
  scenario.cluster.source = "mine";
  EXPECT_TRUE(profiles.is_place_of("selene-a100", scenario.stack.name, scenario));
  scenario.cluster.name = "mine";
  EXPECT_TRUE(profiles.is_place_of("selene-a100", scenario.stack.name, scenario));
  scenario.cluster = find_cluster("azure-a100");
  scenario.cluster.name = "roce-a100";
  EXPECT_TRUE(profiles.is_place_of("bytedance-a100", scenario.stack.name, scenario));
  EXPECT_FALSE(profiles.is_place_of("roce-a100", scenario.stack.name, scenario));
}

// Precisions of one stack say how long one another's runs take, whichever is the stack's own.
TEST(ScenarioOf, TakesTheRowsWordForThePrecision) {
  const MeasuredRuns runs = read_measured_runs(CsvTable::from_text(
      "precision," + std::string(kRunsHeader) +
          ",a,24,2304,24,51200,2048,dgx-h100,megatron-core-2025,1,1,32,1,16,512,full,3.5,g,y\n"
          "tf32,b,24,2304,24,51200,2048,dgx-h100,megatron-core-2025,1,1,32,1,16,512,full,3.5,g,y\n"
          "nvfp4,c,24,2304,24,51200,2048,dgx-gb300,megatron-core-2025,1,1,32,1,16,512,full,3.5,g,y"
          "\n",
      "runs.csv"));
  ProfileCache profiles;
  const StackSpec own = profiles.scenario_of(runs.runs.at(0)).stack;
  EXPECT_EQ(own.precision, Precision::kBf16);
  const Scenario wide = profiles.scenario_of(runs.runs.at(1));
  EXPECT_EQ(wide.stack.precision, Precision::kTf32);
  EXPECT_TRUE(takes_as_long(own, wide.stack));
  EXPECT_TRUE(takes_as_long(wide.stack, own));
  EXPECT_TRUE(profiles.is_place_of(runs.runs.at(0).cluster, runs.runs.at(0).stack, wide));
  EXPECT_TRUE(profiles.is_place_of(runs.runs.at(1).cluster, runs.runs.at(1).stack, wide));
  EXPECT_EQ(profiles.scenario_of(runs.runs.at(2)).stack.fp8, Fp8Scaling::kNvfp4);
  const CostedRuns costs = cost_runs(runs);
  ASSERT_EQ(costs.costed.size(), 3U);
  EXPECT_GT(costs.costed[1].predicted, costs.costed[0].predicted);  // products at half the rate
}

TEST(ScenarioOf, TakesTheRowsWordForTheOverlap) {
  const CostedRuns runs = costed(
      "a,24,2304,24,51200,2048,selene-a100,megatron-lm-2021,1,1,32,1,16,512,full,3.5,g,y\n"
      "b,24,2304,24,51200,2048,selene-a100,megatron-lm-2021,1,1,32,1,16,512,full,3.5,g,n\n");
  ASSERT_EQ(runs.costed.size(), 2U);
  EXPECT_LT(runs.costed[0].predicted, runs.costed[1].predicted);
}

/// Returns four rows in two groups, measured 1, 2, 4 and 5 s, predicted 1.1, 1.6, 4.0 and 6.0 s.
ValidationReport report_of_four() {
  CostedRuns runs;
  for (const auto& [group, measured, predicted] :
       {std::tuple{"a", 1.0, 1.1}, std::tuple{"a", 2.0, 1.6}, std::tuple{"b", 4.0, 4.0},
        std::tuple{"b", 5.0, 6.0}}) {
    CostedRun run = costed(
                        "a,24,2304,24,51200,2048,selene-a100,megatron-lm-2021,1,1,32,1,16,512,"
                        "full,3.5,g,y\n")
                        .costed.front();
    run.run.group = group;
    run.run.iteration_time = Seconds(measured);
    run.predicted = Seconds(predicted);
    runs.costed.push_back(run);
  }
  return make_validation_report(runs, CalibrationKind::kNone);
}

// By hand: +10, -20, 0 and +20 %.
TEST(ValidationReport, SummarizesEachGroupAndAllRows) {
  const ValidationReport report = report_of_four();
  ASSERT_EQ(report.groups.size(), 2U);
  EXPECT_EQ(report.groups[0].group, "a");
  EXPECT_NEAR(report.groups[0].errors.mean_absolute, 0.15, 1e-12);
  EXPECT_NEAR(report.groups[0].errors.bias, -0.05, 1e-12);
  EXPECT_NEAR(report.groups[1].errors.max_absolute, 0.2, 1e-12);
  EXPECT_EQ(report.total.errors.count, 4);
  EXPECT_NEAR(report.total.errors.mean_absolute, 0.125, 1e-12);
}

TEST(ValidationReport, CountsTheRowsInsideTheirIntervals) {
  const RelativeInterval& interval = kUncalibratedInterval;
  int inside = 0;
  for (const double ratio : {1.0 / 1.1, 2.0 / 1.6, 1.0, 5.0 / 6.0}) {
    inside += interval.low <= ratio && ratio <= interval.high ? 1 : 0;
  }
  EXPECT_DOUBLE_EQ(report_of_four().total.inside_interval, inside / 4.0);
  EXPECT_DOUBLE_EQ(report_of_four().total.median_half_width, (interval.high - interval.low) / 2.0);
}

nlohmann::json json_of(CalibrationKind kind) {
  ValidationReport report = make_validation_report(costed_published_runs(), kind);
  report.ranking = rank_rows(report);
  return nlohmann::json::parse(to_json(report));
}

TEST(ValidationJson, HasTheKeysThatToolsRead) {
  const nlohmann::json document = json_of(CalibrationKind::kNone);
  EXPECT_EQ(document["schema"], "ptdp.validation/1");
  EXPECT_EQ(document["calibration"], "none");
  for (const char* key : {"tool_version", "rows", "skipped", "groups", "total", "ranking"}) {
    EXPECT_TRUE(document.contains(key)) << key;
  }
  for (const char* key : {"id", "group", "measured_s", "predicted_s", "interval_s", "error_pct",
                          "measured_tflops_per_gpu", "predicted_tflops_per_gpu"}) {
    EXPECT_TRUE(document["rows"][0].contains(key)) << key;
  }
  for (const char* key : {"n", "mape_pct", "median_pct", "p90_pct", "max_pct", "bias_pct"}) {
    EXPECT_TRUE(document["groups"][0].contains(key)) << key;
    EXPECT_TRUE(document["total"].contains(key)) << key;
  }
  EXPECT_TRUE(document["groups"][0].contains("group"));
  EXPECT_FALSE(document["total"].contains("group"));
}

TEST(ValidationJson, HasRowsThatAgreeWithThemselves) {
  for (const CalibrationKind kind : {CalibrationKind::kNone, CalibrationKind::kShipped,
                                     CalibrationKind::kLeaveOneOut, CalibrationKind::kScale}) {
    const nlohmann::json document = json_of(kind);
    for (const nlohmann::json& row : document["rows"]) {
      const double predicted = row["predicted_s"];
      EXPECT_NEAR(row["error_pct"].get<double>(),
                  100.0 * (predicted / row["measured_s"].get<double>() - 1.0), 1e-9);
      EXPECT_LT(row["interval_s"][0], predicted);
      EXPECT_GT(row["interval_s"][1], predicted);
    }
  }
}

TEST(ValidationJson, SaysWhatIsInSample) {
  EXPECT_EQ(json_of(CalibrationKind::kScale)["in_sample"], true);
  EXPECT_EQ(json_of(CalibrationKind::kLeaveOneOut)["in_sample"], false);
}

TEST(ValidationTable, TellsInSampleFromHeldOut) {
  const auto table = [](CalibrationKind kind) {
    return to_text(make_validation_report(costed_published_runs(), kind));
  };
  EXPECT_THAT(table(CalibrationKind::kNone), HasSubstr("not calibrated"));
  EXPECT_THAT(table(CalibrationKind::kLeaveOneOut), HasSubstr("leave-one-out"));
  EXPECT_THAT(table(CalibrationKind::kScale), HasSubstr("in-sample"));
}

TEST(ValidationTable, HasARankingWhereThereIsOne) {
  ValidationReport report = make_validation_report(costed_published_runs(), CalibrationKind::kNone);
  EXPECT_THAT(to_text(report), testing::Not(HasSubstr("regret")));
  report.ranking = rank_rows(report);
  EXPECT_THAT(to_text(report), HasSubstr("regret"));
}

TEST(FirstSkipped, SaysWhyAndHowManyMoreThereAre) {
  EXPECT_EQ(first_skipped({}), "there is none");
  const SkippedRun one{.id = "x", .group = "g", .reason = "why"};
  EXPECT_EQ(first_skipped({one}), "x: why");
  EXPECT_EQ(first_skipped({one, {.id = "y"}, {.id = "z"}}), "x: why (and 2 more)");
}

}  // namespace
}  // namespace ptdp
