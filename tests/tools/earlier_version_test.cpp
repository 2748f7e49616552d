// Tests that files of version 0.1.0 can be read: a plan, a run of it and its checkpoint
// (tests/golden/version-0.1.0).
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const std::string kKept = PTDP_SOURCE_DIR "/tests/golden/version-0.1.0/";
// What version 0.1.0 printed of step 4; other processors sum in another order.
constexpr double kNextLoss = 4.17984769653146;
constexpr double kLossTolerance = 1e-5;

TEST(EarlierVersion, PlanIsShown) {
  const ProgramRun run = run_plan({"show", kKept + "plan.json"});
  EXPECT_EQ(run.status, kDone) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("gpt-kept"));
}

TEST(EarlierVersion, PlanIsSimulated) {
  EXPECT_EQ(run_sim({kKept + "plan.json"}).status, kDone);
}

TEST(EarlierVersion, RunCalibrates) {
  const ProgramRun run = run_calibrate({kKept + "run.json"});
  EXPECT_EQ(run.status, kDone) << run.errors;
}

TEST(EarlierVersion, CheckpointGoesOnWhereItEnded) {
  const TemporaryDirectory directory;
  fs::copy(kKept + "checkpoint", directory.path() / "checkpoint", fs::copy_options::recursive);
  const ProgramRun run =
      run_run({kKept + "plan.json", "--resume", (directory.path() / "checkpoint").string(),
               "--steps", "4", "--format", "json"});
  ASSERT_EQ(run.status, kDone) << run.errors;
  const json losses = json::parse(run.output).at("losses");
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_NEAR(losses[0].get<double>(), kNextLoss, kLossTolerance);
}

}  // namespace
}  // namespace ptdp
