// The scripts of tools/examples run as they stand, and what they show is so.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Runs a script of tools/examples with the built commands; what it writes goes to `directory`.
ProgramRun run_example(const std::string& name, const fs::path& directory) {
  const char* path = std::getenv("PATH");
  return run_program(fs::path(PTDP_SOURCE_DIR) / "tools/examples" / name, {directory.string()},
                     {.environment = {{"PATH", plan_program().parent_path().string() + ":" +
                                                   (path != nullptr ? path : "/usr/bin:/bin")}},
                      .deadline = std::chrono::seconds(120)});
}

/// Returns what `pattern` captures, once for each match in `text`.
std::vector<std::string> captures(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), expression); it != std::sregex_iterator();
       ++it) {
    found.push_back(it->str(1));
  }
  return found;
}

TEST(Examples, PlanForAClusterOfTheUsers) {
  const TemporaryDirectory directory;
  const ProgramRun run = run_example("plan-for-your-cluster", directory.path());
  ASSERT_EQ(run.status, kDone) << run.errors;
  const std::vector<std::string> seconds =
      captures(run.output, R"(our-h100 .*: ([\d.]+) s per iteration)");
  ASSERT_EQ(seconds.size(), 2U) << run.output;
  // Twice the NICs' bandwidth never takes longer.
  EXPECT_LT(std::stod(seconds[1]), std::stod(seconds[0]));
  EXPECT_TRUE(fs::exists(directory.path() / "plan.json"));
}

TEST(Examples, CalibrateWithTheUsersRuns) {
  const TemporaryDirectory directory;
  const ProgramRun run = run_example("calibrate-with-your-runs", directory.path());
  ASSERT_EQ(run.status, kDone) << run.errors;
  // The factor lies between that of the published runs and what the three rows measured.
  std::vector<double> ratios;
  for (const char* row : {"a", "b", "c"}) {
    std::smatch match;
    const std::regex times("\n" + std::string(row) + R"( +([\d.]+) +([\d.]+))");
    ASSERT_TRUE(std::regex_search(run.output, match, times)) << run.output;
    ratios.push_back(std::stod(match.str(1)) / std::stod(match.str(2)));
  }
  std::sort(ratios.begin(), ratios.end());
  const std::vector<std::string> factors = captures(run.output, R"( x([\d.]+) )");
  ASSERT_EQ(factors.size(), 2U) << run.output;
  EXPECT_GT(std::stod(factors[1]), std::stod(factors[0]));
  EXPECT_NEAR(std::stod(factors[1]), ratios[1], 0.02);
  EXPECT_THAT(run.output, HasSubstr("rests on 3 runs of this cluster and stack"));
}

TEST(Examples, ImportOrders) {
  const TemporaryDirectory directory;
  const ProgramRun run = run_example("import-torchtitan-orders", directory.path());
  ASSERT_EQ(run.status, kDone) << run.errors;
  // By hand, actions of one unit each: rank 0 of the file has 9 and waits for 1I0 and 1I2, so 11.
  // ZB-H1 puts 1W0 off, so that rank 0 waits for 1I0 alone: 10, made here and read from a file.
  EXPECT_THAT(captures(run.output, R"(makespan (\d+))"), testing::ElementsAre("11", "10", "10"));
}

TEST(Examples, CompareStrategies) {
  const TemporaryDirectory directory;
  const ProgramRun run = run_example("compare-strategies", directory.path());
  ASSERT_EQ(run.status, kDone) << run.errors;
  for (const char* strategy : {"PTD-P ", "ZeRO-3 ", "ZeRO-3 + TP ", "FSDP "}) {
    EXPECT_THAT(run.output, HasSubstr(strategy));
  }
  EXPECT_THAT(run.output, HasSubstr("Best that matches: tp=8 pp=1 "));
}

TEST(Examples, TrainAndResume) {
  const TemporaryDirectory directory;
  const ProgramRun run = run_example("train-and-resume", directory.path());
  ASSERT_EQ(run.status, kDone) << run.errors;
  // Another layout from the middle on, and the losses of a training that never stopped.
  const ProgramRun whole =
      run_run({"two-shards.json", "--steps", "8"}, {.directory = directory.path()});
  ASSERT_EQ(whole.status, kDone) << whole.errors;
  const std::string last = R"(step 8/8  loss ([\d.]+))";
  const std::vector<std::string> resumed = captures(run.errors, last);
  ASSERT_EQ(resumed.size(), 1U) << run.errors;
  ASSERT_EQ(captures(whole.errors, last).size(), 1U) << whole.errors;
  EXPECT_NEAR(std::stod(resumed[0]), std::stod(captures(whole.errors, last)[0]), 2e-4);
}

}  // namespace
}  // namespace ptdp
