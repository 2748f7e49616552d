// Tests of --log of ptdp-validate and ptdp-calibrate: what says what was run, and what is refused.
#include <gmock/gmock.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

/// Returns a log of torchtitan whose GPUs train `tokens` a second each, 16384 in an iteration.
std::string titan_log(int tokens) {
  std::string text;
  for (int step = 1; step <= 6; ++step) {
    const int seconds = 16384 / tokens * step;
    text +=
        "[rank0]:[titan] 2025-06-01 12:00:" + std::string(seconds < 10 ? "0" : "") +
        std::to_string(seconds) + ",123 - root - INFO - step: " + std::to_string(step) +
        "  loss:  4.1  memory: 40.00GiB(50.00%)  tps: " + std::to_string(step == 1 ? 100 : tokens) +
        "  tflops: 300.00  mfu: 30.00%\n";
  }
  return text;
}

const std::vector<std::string> kLoggedJob = {
    "--gpus",           "64",      "--model",         "llama-3-8b",          "--cluster",
    "grand-teton-h100", "--stack", "torchtitan-2024", "--global-batch-size", "128",
    "--seq-length",     "8192"};

std::vector<std::string> with_logged_job(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), kLoggedJob.begin(), kLoggedJob.end());
  return arguments;
}

/// Writes the best plan of the job and returns its file.
fs::path written_plan(const TemporaryDirectory& directory) {
  const fs::path plan = directory.path() / "plan.json";
  EXPECT_TRUE(succeeds(run_plan(with_logged_job({"-o", plan.string()}))));
  return plan;
}

// 128 sequences of 8192 tokens over 64 GPUs are 16384 tokens a GPU: 2 s at 8192 a second.
TEST(ValidateLog, ComparesALogWithItsPlan) {
  const TemporaryDirectory directory;
  const fs::path log = directory.file("train.log", titan_log(8192));
  const fs::path plan = written_plan(directory);
  const ProgramRun run = run_validate(
      {"--log", log.string(), "--plan", plan.string(), "--format", "json", "--max-error", "60"});
  ASSERT_TRUE(succeeds(run)) << run.errors;
  const json document = json::parse(run.output);
  EXPECT_EQ(document["measured"]["time_s"], 2.0);
  EXPECT_EQ(document["measured"]["derived_from"], "tokens per second");
  const json predicted = json::parse(content_of(plan))["predicted"]["iteration_time_s"];
  EXPECT_NEAR(document["error_pct"].get<double>(), 100.0 * (predicted.get<double>() / 2.0 - 1.0),
              1e-6);
  const ProgramRun strict =
      run_validate({"--log", log.string(), "--plan", plan.string(), "--max-error", "0"});
  EXPECT_EQ(strict.status, kOutsideTolerance);
  EXPECT_THAT(strict.output, HasSubstr("time per iteration"));
}

TEST(ValidateLog, TakesTheRunFromFlagsToo) {
  const TemporaryDirectory directory;
  const fs::path log = directory.file("train.log", titan_log(8192));
  const ProgramRun given =
      run_validate(with_logged_job({"--log", log.string(), "--config", "tp=1,dp=64,zero=3,b=1"}));
  ASSERT_TRUE(succeeds(given)) << given.errors;
  EXPECT_THAT(given.output, HasSubstr("tp=1 pp=1 dp=64 b=1"));
  const ProgramRun alone = run_validate({"--log", log.string()});
  ASSERT_TRUE(succeeds(alone)) << alone.errors;  // times by the stamps, two seconds apart
  EXPECT_THAT(alone.output, HasSubstr("--plan PLAN.json"));
}

TEST(ValidateLog, RefusesWhatDoesNotGoTogether) {
  const TemporaryDirectory directory;
  const std::string log = directory.file("train.log", titan_log(8192)).string();
  const std::string plan = written_plan(directory).string();
  EXPECT_TRUE(is_refused(run_validate({"--log", log, "--plan", plan, "--gpus", "64"}), {"--gpus"}));
  EXPECT_TRUE(is_refused(run_validate({"--log", log, "--gpus", "64"}), {"train.log", "--gpus"}));
  EXPECT_TRUE(is_refused(run_validate({"--log", log, "--max-error", "5"}), {"--max-error"}));
  EXPECT_TRUE(is_refused(run_validate({"--log", log, "--runs", "x.csv"}), {"--runs", "--log"}));
  EXPECT_TRUE(is_refused(run_validate({"--plan", plan}), {"--plan", "--log"}));
  EXPECT_TRUE(is_refused(run_validate({"--log", log, "--format", "markdown"}), {"markdown"}));
  EXPECT_TRUE(is_refused(run_validate({"--log", "/nowhere/x.log"}), {"/nowhere/x.log"}));
  EXPECT_TRUE(is_refused(run_validate({"--log", plan}), {"plan.json", "no line of progress"}));
  const std::string one = directory.file("one.log", titan_log(8192).substr(0, 150)).string();
  EXPECT_TRUE(is_refused(run_validate({"--log", one, "--plan", plan}), {"one.log", "found 1"}));
}

TEST(CalibrateByLogs, WritesWhatPlansTake) {
  const TemporaryDirectory directory;
  const fs::path log = directory.file("train.log", titan_log(4096));  // 4 s
  const fs::path plan = written_plan(directory);
  const fs::path output = directory.path() / "calibration";
  const ProgramRun run =
      run_calibrate({"--log", log.string(), "--plan", plan.string(), "-o", output.string()});
  ASSERT_TRUE(succeeds(run)) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("grand-teton-h100 + torchtitan-2024"));
  const json file = json::parse(content_of(output / "grand-teton-h100+torchtitan-2024.json"));
  ASSERT_EQ(file["runs"].size(), 1U);
  EXPECT_EQ(file["runs"][0]["id"], "train.log");
  EXPECT_NEAR(file["runs"][0]["measured_s"].get<double>(), 4.0, 1e-9);
  const auto time_of = [&](const std::string& calibration) {
    const ProgramRun planned = run_plan(with_logged_job(
        {"--config", "tp=1,dp=64,zero=3,b=1", "--format", "json", "--calibration", calibration}));
    EXPECT_TRUE(succeeds(planned)) << planned.errors;
    return json::parse(planned.output)["predicted"]["iteration_time_s"].get<double>();
  };
  EXPECT_GT(time_of(output.string()), 1.2 * time_of("shipped"));  // twice as slow as predicted
}

TEST(CalibrateByLogs, NeedsAPlanForEachLog) {
  const TemporaryDirectory directory;
  const std::string log = directory.file("train.log", titan_log(4096)).string();
  const std::string plan = written_plan(directory).string();
  EXPECT_TRUE(is_refused(run_calibrate({"--log", log}), {"train.log", "--plan"}));
  EXPECT_TRUE(is_refused(run_calibrate({"--runs", "x.csv", "--gpus", "64"}), {"--gpus", "--log"}));
  EXPECT_TRUE(is_refused(run_calibrate({"--log", log, "--log", log, "--plan", plan}),
                         {"--plan", "got 1 for 2 logs"}));
  EXPECT_TRUE(is_refused(run_calibrate({"--log", log, "--log", log, "--config", "tp=1"}),
                         {"--config", "got 2"}));
  EXPECT_TRUE(
      succeeds(run_calibrate({"--log", log, "--plan", plan, "--log", log, "--plan", plan})));
}

}  // namespace
}  // namespace ptdp
