// Tests of --trace of ptdp-validate: what says what was run, and what is refused.
#include <gmock/gmock.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// Returns a trace of one rank of 64, whose GPU computes for 2 s and waits for a message for 1 s.
std::string three_seconds() {
  return R"json({"distributedInfo": {"rank": 3, "world_size": 64}, "traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "nvjet_tst", "ts": 0, "dur": 2000000,
     "args": {"device": 0, "stream": 7}},
    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv(x)", "ts": 2000000,
     "dur": 1000000, "args": {"device": 0, "stream": 8}}]
})json";
}

const std::vector<std::string> kTracedJob = {
    "--gpus",           "64",      "--model",         "llama-3-8b",          "--cluster",
    "grand-teton-h100", "--stack", "torchtitan-2024", "--global-batch-size", "128",
    "--seq-length",     "8192"};

std::vector<std::string> with_traced_job(std::vector<std::string> given) {
  given.insert(given.end(), kTracedJob.begin(), kTracedJob.end());
  return given;
}

TEST(ValidateTrace, SplitsATraceBesideItsPlan) {
  const TemporaryDirectory directory;
  const std::string trace = directory.file("trace.json", three_seconds()).string();
  const std::string plan = (directory.path() / "plan.json").string();
  ASSERT_TRUE(
      succeeds(run_plan(with_traced_job({"--config", "tp=1,dp=64,zero=3,b=1", "-o", plan}))));
  const ProgramRun run = run_validate({"--trace", trace, "--plan", plan, "--format", "json"});
  ASSERT_TRUE(succeeds(run)) << run.errors;
  const json document = json::parse(run.output);
  EXPECT_EQ(document["mean"]["products_s"], 2.0);
  EXPECT_EQ(document["mean"]["exposed_communication_s"], 1.0);
  const json predicted = json::parse(content_of(plan))["predicted"]["iteration_time_s"];
  EXPECT_NEAR(document["error_pct"].get<double>(), 100.0 * (predicted.get<double>() / 3.0 - 1.0),
              1e-6);
  EXPECT_EQ(run_validate({"--trace", trace, "--plan", plan, "--max-error", "0"}).status,
            kOutsideTolerance);
}

TEST(ValidateTrace, TakesTheRunFromFlagsOrGoesWithout) {
  const TemporaryDirectory directory;
  const std::string trace = directory.file("trace.json", three_seconds()).string();
  const ProgramRun given =
      run_validate(with_traced_job({"--trace", trace, "--config", "tp=1,dp=64,zero=3,b=1"}));
  ASSERT_TRUE(succeeds(given)) << given.errors;
  EXPECT_THAT(given.output, HasSubstr("tp=1 pp=1 dp=64 b=1"));
  const ProgramRun alone = run_validate({"--trace", trace});
  ASSERT_TRUE(succeeds(alone)) << alone.errors;
  EXPECT_THAT(alone.output, HasSubstr("rank 3 of 64"));
}

TEST(ValidateTrace, RefusesWhatDoesNotGoTogether) {
  const TemporaryDirectory directory;
  const std::string trace = directory.file("trace.json", three_seconds()).string();
  const auto refused = [](const std::vector<std::string>& words,
                          const std::vector<std::string>& named) {
    return is_refused(run_validate(words), named);
  };
  EXPECT_TRUE(refused({"--trace", trace, "--log", trace}, {"--trace", "--log"}));
  EXPECT_TRUE(refused({"--trace", trace, "--max-error", "5"}, {"--max-error"}));
  EXPECT_TRUE(refused({"--trace", trace, "--gpus", "64"}, {"trace.json", "--gpus"}));
  EXPECT_TRUE(refused({"--trace", trace, "--format", "markdown"}, {"markdown"}));
  EXPECT_TRUE(refused({"--trace", "/nowhere/x.json"}, {"/nowhere/x.json"}));
  EXPECT_TRUE(refused({"--trace", directory.path().string()}, {"directory"}));
  EXPECT_TRUE(refused({"--gpus", "64"}, {"--gpus", "--trace"}));
  EXPECT_TRUE(refused(with_traced_job({"--trace", trace, "--config", "tp=1,dp=32,b=1"}), {}));
}

}  // namespace
}  // namespace ptdp
