// Tests of commands that a signal or their time limit ends while they work.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr int kInterrupted = 130;
constexpr int kTerminated = 143;

/// Returns the arguments of a search of minutes that finds something at once.
std::vector<std::string> long_search(std::vector<std::string> flags) {
  flags.insert(flags.end(), {"--model", "qwen3-235b-a22b", "--gpus", "3072", "--cluster",
                             "grand-teton-h100-500w", "--stack", "megatron-core-2025", "--schedule",
                             "all", "--overlap", "all", "--top", "300"});
  return flags;
}

/// A delay after the start in which the command installs its handlers, also on a busy machine.
constexpr milliseconds kAfterStart(2500);

RunOptions with_signal(int signal) {
  return {.signals = {{.text = "", .signal = signal, .delay = kAfterStart}}};
}

/// Expects enumerated = feasible + violations, whenever a search was ended.
void expect_counted(const json& candidates) {
  std::int64_t sum = candidates["feasible"];
  for (const auto& [name, count] : candidates["violations"].items()) {
    sum += count.get<std::int64_t>();
  }
  EXPECT_EQ(candidates["enumerated"], sum);
}

TEST(InterruptedSearch, AnswersWithTheBestSoFarAndWritesItWhole) {
  const TemporaryDirectory directory;
  const std::string file = (directory.path() / "plan.json").string();
  for (const auto& [signal, status] : {std::pair(SIGINT, kInterrupted), {SIGTERM, kTerminated}}) {
    const ProgramRun run = run_plan(
        long_search({"--format", "json", "--time-limit", "600", "-o", file}), with_signal(signal));
    ASSERT_EQ(run.status, status) << run.command << run.errors;
    EXPECT_LT(run.seconds_after_signal, kRunawaySeconds);
    EXPECT_EQ(run.errors, "");
    const json result = json::parse(run.output);
    EXPECT_FALSE(result["candidates"]["complete"]);
    EXPECT_FALSE(result["candidates"]["proven"]);
    EXPECT_GT(result["candidates"]["least_unseen_s"], 0.0);
    expect_counted(result["candidates"]);
    ASSERT_FALSE(result["plans"].empty());
    EXPECT_EQ(json::parse(content_of(file))["config"], result["plans"][0]["config"]);
    EXPECT_TRUE(succeeds(run_plan({"show", file})));
    EXPECT_EQ(entries_of(directory.path()), std::vector<std::string>{"plan.json"});
  }
}

TEST(InterruptedSearch, SaysInItsTextThatItIsNotProven) {
  const ProgramRun run = run_plan(long_search({"--time-limit", "600"}), with_signal(SIGINT));
  EXPECT_EQ(run.status, kInterrupted);
  EXPECT_NE(run.output.find("\nNot proven\n"), std::string::npos);
  EXPECT_EQ(run.errors, "");  // no line of progress: no terminal
}

TEST(InterruptedSearch, ThatFoundNothingSaysSoOnALine) {
  // Layers in such numbers that 1000 GPUs never hold the model.
  const TemporaryDirectory directory;
  const std::string model = replaced(source_file("profiles/models/gpt3-175b.json"),
                                     "\"num_layers\": 96", "\"num_layers\": 60000");
  const std::string file = directory.file("model.json", model).string();
  const ProgramRun run = run_plan({"--model", file, "--gpus", "1000", "--cluster", "hgx-h200",
                                   "--stack", "ptdp-cuda", "--time-limit", "600"},
                                  with_signal(SIGINT));
  ASSERT_EQ(run.status, kInterrupted) << run.errors;
  EXPECT_EQ(run.output, "");
  EXPECT_EQ(run.errors.rfind("ptdp-plan: interrupted before a plan was found: ", 0), 0U)
      << run.errors;
  EXPECT_EQ(std::count(run.errors.begin(), run.errors.end(), '\n'), 1);
}

// A launcher ends all ranks where one has said what is wrong: that line is the only one. This rank
// waits for the first, which never comes.
TEST(InterruptedProcess, LeavesTheLineToTheLauncherOfSeveral) {
  const TemporaryDirectory directory;
  const std::string plan = (directory.path() / "plan.json").string();
  ASSERT_TRUE(succeeds(run_plan(
      {"--model", "gpt-tiny", "--cluster", "host", "--gpus", "2", "--pp", "2", "-o", plan})));
  RunOptions options = with_signal(SIGTERM);
  options.environment = {{"RANK", "1"},
                         {"WORLD_SIZE", "2"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_PORT", "29431"},
                         {"MASTER_ADDR", "127.0.0.1"}};
  const ProgramRun run = run_program(run_program_path(), {plan}, options);
  EXPECT_EQ(run.status, kTerminated);
  EXPECT_EQ(run.errors, "");
}

TEST(TimeLimit, EndsASearchWithTheBestSoFar) {
  const ProgramRun run = run_plan(long_search({"--format", "json", "--time-limit", "0.5"}));
  ASSERT_TRUE(succeeds(run));
  const json result = json::parse(run.output);
  EXPECT_FALSE(result["candidates"]["complete"]);
  expect_counted(result["candidates"]);
  EXPECT_LT(run.cpu_seconds, kRunawaySeconds);
}

TEST(TimeLimit, OfEveryAnswerIsMarkedInCsv) {
  const ProgramRun run = run_plan(long_search({"--format", "csv", "--time-limit", "0.5"}));
  ASSERT_TRUE(succeeds(run));
  const std::string header = run.output.substr(0, run.output.find('\n'));
  EXPECT_EQ(header.substr(header.rfind(',') + 1), "proven");
  EXPECT_EQ(run.output.substr(run.output.size() - 3), ",0\n");
}

TEST(TimeLimit, BeforeAnythingIsFoundIsNoProofThatNothingFits) {
  const ProgramRun run = run_plan({"--model", "1T", "--gpus", "3072", "--time-limit", "0.001"});
  if (run.status != kDone) {  // a machine may be as fast
    EXPECT_TRUE(ends_with(run, kRuntimeFault));
    EXPECT_NE(run.errors.find("no plan was found within the time limit"), std::string::npos);
  }
}

TEST(TimeLimit, IsANumberOfSeconds) {
  for (const char* text : {"0", "-1", "x", "nan", "1e30", ""}) {
    EXPECT_TRUE(is_refused(run_plan({"--model", "gpt-tiny", "--cluster", "selene-a100", "--gpus",
                                     "1", "--time-limit", text}),
                           {"--time-limit"}));
  }
}

/// Expects one line about the end and nothing else. The file that was there must stay as it was,
/// and no other may appear.
void expect_ends(const ProgramRun& run, const std::string& program,
                 const std::filesystem::path& directory) {
  EXPECT_EQ(run.status, kInterrupted) << run.command << run.output.substr(0, 200);
  EXPECT_EQ(run.errors, program + ": interrupted\n");
  EXPECT_EQ(run.output, "");
  EXPECT_EQ(entries_of(directory), std::vector<std::string>{"old.json"});
  EXPECT_EQ(content_of(directory / "old.json"), "what was there\n");
}

/// Returns measured runs that keep the commands busy for much longer than it takes to interrupt
/// them: each is of a pipeline that is simulated.
std::string many_runs(const TemporaryDirectory& directory) {
  const std::string rows = source_file("profiles/published/mlperf-gpt3-175b.csv");
  const std::size_t header = rows.find('\n') + 1;
  std::string text = rows.substr(0, header);
  constexpr std::size_t most = 15 << 20;  // less than the commands read
  while (text.size() < most) {
    text += rows.substr(header);
  }
  return directory.file("runs.csv", text).string();
}

class InterruptedCommand : public testing::Test {
 protected:
  InterruptedCommand() { static_cast<void>(place_.file("old.json", "what was there\n")); }
  [[nodiscard]] std::string old() const { return (place() / "old.json").string(); }
  [[nodiscard]] const std::filesystem::path& place() const { return place_.path(); }
  [[nodiscard]] const TemporaryDirectory& elsewhere() const { return elsewhere_; }

 private:
  TemporaryDirectory place_;
  TemporaryDirectory elsewhere_;
};

TEST_F(InterruptedCommand, OfSimLeavesTheOldTrace) {
  const std::string plan = (elsewhere().path() / "plan.json").string();
  ASSERT_TRUE(succeeds(run_plan({"--model", "1T", "--gpus", "3072", "--tp", "8", "--pp", "128",
                                 "--dp", "3", "--global-batch-size", "49152", "-o", plan})));
  expect_ends(run_sim({plan, "--trace", old()}, with_signal(SIGINT)), "ptdp-sim", place());
}

TEST_F(InterruptedCommand, OfValidateAndCalibratePrintsNoPart) {
  const std::string runs = many_runs(elsewhere());
  expect_ends(run_validate({"--runs", runs}, with_signal(SIGINT)), "ptdp-validate", place());
  expect_ends(run_calibrate({"--runs", runs, "-o", old()}, with_signal(SIGINT)), "ptdp-calibrate",
              place());
}

}  // namespace
}  // namespace ptdp
