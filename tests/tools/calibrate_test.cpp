// Tests of ptdp-calibrate, and of plans made with what it writes.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kFile = "selene-a100+megatron-lm-2021.json";

std::string published(const std::string& file) {
  return std::string(PTDP_SOURCE_DIR) + "/profiles/published/" + file;
}

/// Writes the factors of SC21 table 1 and of Korthikanti et al. into `directory`.
ProgramRun calibrate_into(const fs::path& directory, const RunOptions& options = {}) {
  return run_calibrate({"--runs", published("sc21-t1.csv"), "--runs", published("korthikanti.csv"),
                        "-o", directory.string()},
                       options);
}

TEST(Calibrate, AnswersHelpAndVersion) {
  const ProgramRun help = run_calibrate({"--help"});
  EXPECT_TRUE(succeeds(help));
  for (const char* flag : {"--runs", "--output", "--intervals"}) {
    EXPECT_NE(help.output.find(flag), std::string::npos) << flag;
  }
  const ProgramRun version = run_calibrate({"--version"});
  EXPECT_TRUE(succeeds(version));
  EXPECT_THAT(version.output, testing::StartsWith("ptdp-calibrate "));
}

TEST(Calibrate, RefusesBadFlagsAndWords) {
  EXPECT_TRUE(is_refused(run_calibrate({}), {"--runs"}));
  EXPECT_TRUE(is_refused(run_calibrate({"runs.csv"}), {"runs.csv"}));
  EXPECT_TRUE(is_refused(run_calibrate({"--profile", "x.json"}), {"--profile", "runs"}));
  EXPECT_TRUE(is_refused(run_calibrate({"run.json", "--profile", "x"}), {"--profile", ".json"}));
  EXPECT_TRUE(is_refused(run_calibrate({"run.json", "--profile", "x.json", "--intervals"}),
                         {"--intervals"}));
  EXPECT_TRUE(is_refused(run_calibrate({"--run", "x.csv"}), {"--run", "\"--runs\""}));
  EXPECT_TRUE(is_refused(run_calibrate({"--runs"}), {"--runs"}));
  EXPECT_TRUE(is_refused(run_calibrate({"--runs", "x.csv", "-o", ""}), {"--output"}));
  EXPECT_TRUE(is_refused(run_calibrate({"--intervals", "-o", "x"}), {"--output", "--intervals"}));
  EXPECT_TRUE(is_refused(run_calibrate({"--runs", "/nowhere/x.csv"}), {"/nowhere/x.csv"}));
}

TEST(Calibrate, RefusesAFileThatIsNoTableOfRuns) {
  const TemporaryDirectory directory;
  for (const char* text : {"", "id\n", "{}", "\"", "id,layers\n1\n"}) {
    const fs::path file = directory.file("runs.csv", text);
    EXPECT_TRUE(is_refused(run_calibrate({"--runs", file.string()}), {"runs.csv"})) << text;
  }
}

TEST(Calibrate, NamesTheFileOfWhichNoRunCanBeCosted) {
  const TemporaryDirectory directory;
  std::string text = content_of(published("sc21-t1.csv"));
  for (std::size_t at = 0; (at = text.find("selene-a100", at)) != std::string::npos; at += 7) {
    text.replace(at, 11, "nowhere");
  }
  const std::string file = directory.file("partial.csv", text).string();
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--runs", file}, {"--intervals", "--runs", file}}) {
    const ProgramRun run = run_calibrate(arguments);
    EXPECT_TRUE(ends_with(run, kBadInput));
    EXPECT_THAT(run.errors, testing::HasSubstr("partial.csv: no run could be costed: sc21-t1-"));
    EXPECT_THAT(run.errors, testing::HasSubstr("\"nowhere\""));
  }
  // All of them, where there are several.
  const std::string other = directory.file("other.csv", text).string();
  const std::string both = file + ", " + other + ": no run could be costed: sc21-t1-";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--runs", file, "--runs", other},
        {"--intervals", "--runs", file, "--runs", other}}) {
    EXPECT_THAT(run_calibrate(arguments).errors, testing::HasSubstr(both));
  }
  const ProgramRun validated = run_validate({"--runs", file});
  EXPECT_TRUE(ends_with(validated, kBadInput));
  EXPECT_THAT(validated.errors, testing::HasSubstr("partial.csv: no run could be costed: "));
}

TEST(Calibrate, PrintsPredictionsAndSaysWhichRunsItLeftOut) {
  const TemporaryDirectory directory;
  std::string text = content_of(published("sc21-t1.csv"));
  const std::size_t first = text.find("selene-a100", text.find('\n'));
  const std::string file =
      directory.file("partial.csv", text.replace(first, 11, "nowhere")).string();
  const ProgramRun run = run_calibrate({"--predictions", "--runs", file});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.output, testing::StartsWith("id,precision,predicted_s\nsc21-t1-"));
  EXPECT_EQ(std::ranges::count(run.output, '\n'), 1 + 9);
  EXPECT_THAT(run.errors, testing::HasSubstr("skipped: 1 run"));
  EXPECT_THAT(run.errors, testing::HasSubstr("\"nowhere\""));
  // A file that is given twice names each run twice.
  const ProgramRun twice = run_calibrate({"--predictions", "--runs", file, "--runs", file});
  EXPECT_TRUE(ends_with(twice, kBadInput));
  EXPECT_THAT(twice.errors, testing::HasSubstr("expected an id that no other run has, got"));
  EXPECT_EQ(twice.output, "");
}

TEST(Calibrate, NamesFilesAsATerminalMayBeGivenThem) {
  // NOLINTNEXTLINE(misc-misleading-bidirectional): the name that is given
  EXPECT_TRUE(is_refused(run_calibrate({"--runs", "\u202e8"}), {"\\u202e8: cannot be read"}));
  const ProgramRun run = run_calibrate({"--runs", std::string(100'000, 'x')});
  EXPECT_TRUE(is_refused(run, {"File name too long"}));
  EXPECT_LT(run.errors.size(), 1200U);
}

TEST(Calibrate, ShowsOldAndNewFactorsAndWritesNothingUnasked) {
  const TemporaryDirectory directory;
  const ProgramRun run =
      run_calibrate({"--runs", published("sc21-t1.csv")}, {.directory = directory.path()});
  EXPECT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, testing::HasSubstr("selene-a100 + megatron-lm-2021"));
  EXPECT_TRUE(has_only_numbers(run.output));
  EXPECT_TRUE(entries_of(directory.path()).empty());
}

TEST(Calibrate, WritesTheSameFilesEveryTime) {
  const TemporaryDirectory directory;
  const fs::path first = directory.path() / "first";
  const fs::path second = directory.path() / "second";
  ASSERT_TRUE(succeeds(calibrate_into(first)));
  ASSERT_TRUE(succeeds(calibrate_into(second)));
  const std::vector<std::string> names = entries_of(first);
  EXPECT_EQ(names, (std::vector<std::string>{kFile, "selene-a100+megatron-lm-2022.json"}));
  for (const std::string& name : names) {
    EXPECT_EQ(content_of(first / name), content_of(second / name)) << name;
    EXPECT_TRUE(is_finite_json(content_of(first / name))) << name;
  }
  // Again onto what is there.
  EXPECT_TRUE(succeeds(calibrate_into(first)));
  EXPECT_EQ(entries_of(first), names);
}

TEST(Calibrate, RefusesToWriteIntoTheProfilesThatItReads) {
  const std::string profiles = std::string(PTDP_SOURCE_DIR) + "/profiles";
  for (const char* inside : {"", "/published", "/new"}) {
    EXPECT_TRUE(is_refused(
        calibrate_into(profiles + inside, {.environment = {{"PTDP_PROFILES", profiles}}}),
        {"shipped profiles"}))
        << inside;
  }
}

TEST(Calibrate, LeavesEverythingAsItWasWhereOneFileCannotBeWritten) {
  const TemporaryDirectory directory;
  const fs::path old = directory.file(kFile, "old");
  fs::create_directory(directory.path() / "selene-a100+megatron-lm-2022.json");
  EXPECT_TRUE(ends_with(calibrate_into(directory.path()), kOutputFailed));
  EXPECT_EQ(content_of(old), "old");
  EXPECT_EQ(entries_of(directory.path()).size(), 2U);
}

TEST(Calibrate, FailsWithItsStatusWhereNoDirectoryCanBe) {
  const TemporaryDirectory directory;
  const fs::path file = directory.file("file", "old");
  for (const fs::path& path :
       {file, file / "deeper", fs::path("/proc/ptdp"), fs::path("/" + std::string(5000, 'x'))}) {
    EXPECT_TRUE(ends_with(calibrate_into(path), kOutputFailed)) << path;
  }
  EXPECT_EQ(content_of(file), "old");
}

// `ulimit -f 1` lets no file grow beyond 512 bytes: a disk that is full.
TEST(Calibrate, LeavesNothingPartialOnAFullDisk) {
  const TemporaryDirectory directory;
  const fs::path made = directory.path() / "made";
  const ProgramRun run =
      run_program("/bin/sh", {"-c", R"(trap '' XFSZ; ulimit -f 1; exec "$0" "$@")",
                              calibrate_program().string(), "--runs", published("sc21-t1.csv"),
                              "-o", made.string()});
  EXPECT_TRUE(ends_with(run, kOutputFailed));
  EXPECT_EQ(run.output, "");
  EXPECT_TRUE(entries_of(directory.path()).empty());
}

TEST(Calibrate, EndsWithItsStatusWhereStandardOutputTakesNothing) {
  const std::vector<std::vector<std::string>> rows = {{"--help"},
                                                      {"--runs", published("sc21-t1.csv")}};
  for (const std::vector<std::string>& row : rows) {
    for (const Stream stream : {Stream::kFull, Stream::kClosed}) {
      EXPECT_TRUE(ends_with(run_calibrate(row, {.standard_output = stream}), kOutputFailed));
    }
  }
  // All published runs, which take seconds.
  const ProgramRun all = run_calibrate({"--intervals"}, {.standard_output = Stream::kFull});
  EXPECT_TRUE(ends_with(all, kOutputFailed));
}

TEST(Calibrate, PrintsTheConstantsOfTheIntervals) {
  const ProgramRun run = run_calibrate({"--intervals"});
  EXPECT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, testing::HasSubstr("its kind of program"));
  EXPECT_TRUE(has_only_numbers(run.output));
}

/// Runs `ptdp-plan` for the 1T model with a calibration.
ProgramRun plan_with(const std::string& calibration, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"--gpus", "3072",          "--model",
                                        "1T",     "--calibration", calibration};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_plan(arguments);
}

TEST(PlanCalibration, IsTheFactorOfTheFile) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(succeeds(calibrate_into(directory.path())));
  const fs::path file = directory.path() / kFile;
  for (const fs::path& path : {directory.path(), file}) {
    const ProgramRun run = plan_with(path.string(), {"--format", "json"});
    ASSERT_TRUE(succeeds(run));
    const json predicted = json::parse(run.output)["plans"][0]["predicted"];
    EXPECT_NEAR(predicted["calibration_factor"].get<double>(), 1.02, 0.02);
    EXPECT_EQ(predicted["calibration_runs"], 10);  // rows of SC21 table 1
  }
}

TEST(PlanCalibration, IsHeldByValue) {
  const TemporaryDirectory directory;
  const fs::path calibrations = directory.path() / "calibrations";
  const fs::path plan = directory.path() / "plan.json";
  ASSERT_TRUE(succeeds(calibrate_into(calibrations)));
  ASSERT_TRUE(succeeds(plan_with(calibrations.string(), {"-o", plan.string()})));
  fs::remove_all(calibrations);
  EXPECT_TRUE(succeeds(run_plan({"show", plan.string()})));
}

TEST(PlanCalibration, IsShippedUnlessToldOtherwise) {
  EXPECT_EQ(plan_with("shipped", {"--format", "json"}).output,
            run_plan({"--gpus", "3072", "--model", "1T", "--format", "json"}).output);
}

TEST(PlanCalibration, OfNoneIsTheClosedForm) {
  const ProgramRun run = plan_with("none", {"--format", "json"});
  ASSERT_TRUE(succeeds(run));
  const json predicted = json::parse(run.output)["plans"][0]["predicted"];
  EXPECT_EQ(predicted["calibration_factor"], 1.0);
  EXPECT_EQ(predicted["calibration_runs"], 0);
}

TEST(PlanCalibration, HoldsForExplanationsToo) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(succeeds(calibrate_into(directory.path())));
  EXPECT_TRUE(succeeds(plan_with(directory.path().string(), {"--explain", "tp=4"})));
  EXPECT_TRUE(is_refused(plan_with("/nowhere/x.json", {"--explain", "tp=4"}), {"/nowhere/x.json"}));
}

TEST(PlanCalibration, ThatIsNothingOrOfAnotherStackIsRefused) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(succeeds(calibrate_into(directory.path())));
  EXPECT_TRUE(is_refused(plan_with("shiped"), {"--calibration", "\"shipped\""}));
  EXPECT_TRUE(is_refused(plan_with(""), {"--calibration"}));
  EXPECT_TRUE(
      is_refused(plan_with((directory.path() / kFile).string(), {"--stack", "megatron-core-2024"}),
                 {"megatron-core-2024"}));
  EXPECT_TRUE(
      is_refused(run_plan({"list", "models", "--calibration", "none"}), {"--calibration", "list"}));
}

TEST(CalibrationFile, TruncatedAnywhereIsRefused) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(succeeds(calibrate_into(directory.path())));
  const std::string text = content_of(directory.path() / kFile);
  for (std::size_t length = 0; length + 2 < text.size(); length += 97) {
    const fs::path file = directory.file("cut.json", text.substr(0, length));
    ASSERT_TRUE(is_refused(plan_with(file.string()), {"cut.json"})) << length;
  }
}

}  // namespace
}  // namespace ptdp
