#include "planner/validation.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "planner/validation_report.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

constexpr const char* kHeader =
    "id,layers,hidden,heads,vocab,seq,cluster_key,stack_key,tp,pp,dp,vpp,mbs,gbs,recompute,"
    "iter_time_best_s,holdout_group,dp_overlap\n";

CostedRuns costed(const std::string& rows) {
  return cost_runs(read_measured_runs(CsvTable::from_text(kHeader + rows, "runs.csv")));
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

TEST(ScenarioOf, TakesTheRowsWordForTheOverlap) {
  const CostedRuns runs = costed(
      "a,24,2304,24,51200,2048,selene-a100,megatron-lm-2021,1,1,32,1,16,512,full,3.5,g,y\n"
      "b,24,2304,24,51200,2048,selene-a100,megatron-lm-2021,1,1,32,1,16,512,full,3.5,g,n\n");
  ASSERT_EQ(runs.costed.size(), 2U);
  EXPECT_LT(runs.costed[0].predicted, runs.costed[1].predicted);
}

TEST(ErrorsOf, FitOneFactorPerClusterAndStack) {
  // Four runs measured exactly twice as slow as predicted, on each of two stacks with another
  // factor.
  std::vector<CostedRun> runs;
  for (const auto& [stack, factor] : {std::pair{"one", 2.0}, std::pair{"two", 1.5}}) {
    for (int i = 1; i <= 4; ++i) {
      CostedRun run{.predicted = Seconds(i)};
      run.run.cluster = "cluster";
      run.run.stack = stack;
      run.run.iteration_time = Seconds(factor * i);
      runs.push_back(run);
    }
  }
  const RunErrors errors = errors_of(runs);
  EXPECT_NEAR(errors.uncalibrated[0], -0.5, 1e-12);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_NEAR(errors.in_sample[i], 0.0, 1e-12) << i;
    EXPECT_NEAR(errors.leave_one_out[i], 0.0, 1e-12) << i;
  }
}

TEST(ValidationReport, TellsInSampleFromHeldOut) {
  const ValidationReport report = make_validation_report(read_published_runs());
  const std::string table = to_table(report);
  EXPECT_THAT(table, HasSubstr("leave-one-out"));
  EXPECT_THAT(table, HasSubstr("factors fitted to all runs above (in-sample)"));
  const nlohmann::json document = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(document["schema"], "ptdp.validation/1");
  EXPECT_EQ(document["runs"].size(), 80U);  // of the four shipped files
  EXPECT_EQ(document["groups"].back()["group"], "all");
}

}  // namespace
}  // namespace ptdp
