// Tests that equal input gives equal bytes, whatever the threads, the locale, the time zone and the
// run.
#include <gtest/gtest.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

const std::vector<const char*> kFormats = {"table", "json", "csv"};

std::vector<std::string> search(const char* format, const char* threads = "1") {
  return {"--gpus",   "3072", "--model",   "1T",    "--tokens", "450B",
          "--format", format, "--threads", threads, "--top",    "50"};
}

/// Returns the environment of the German locale, which is made if the system lacks it; empty if
/// that is not possible.
std::map<std::string, std::string> german_environment(const TemporaryDirectory& directory) {
  const fs::path localedef = "/usr/bin/localedef";
  if (!fs::exists(localedef)) {
    return {};
  }
  const ProgramRun made = run_program(localedef, {"-i", "de_DE", "-f", "UTF-8", "--no-archive",
                                                  (directory.path() / "de_DE.UTF-8").string()});
  if (made.status != 0) {
    return {};
  }
  return {{"LOCPATH", directory.path().string()},
          {"LC_ALL", "de_DE.UTF-8"},
          {"LC_NUMERIC", "de_DE.UTF-8"},
          {"LANG", "de_DE.UTF-8"}};
}

TEST(Search, GivesTheSameBytesEveryTime) {
  for (const char* format : kFormats) {
    const ProgramRun first = run_plan(search(format));
    ASSERT_TRUE(succeeds(first));
    EXPECT_TRUE(run_plan(search(format)).output == first.output) << format;
  }
}

TEST(Search, GivesTheSameBytesWithAnyNumberOfThreads) {
  const std::string alone = run_plan(search("json")).output;
  for (const char* threads : {"2", "3", "8", "64", "1024"}) {
    const ProgramRun run = run_plan(search("json", threads));
    ASSERT_TRUE(succeeds(run));
    EXPECT_TRUE(run.output == alone) << threads << " threads";
  }
}

TEST(Plan, IsTheSameFileWithAnyNumberOfThreads) {
  const TemporaryDirectory directory;
  for (const char* threads : {"1", "2", "8"}) {
    ASSERT_TRUE(succeeds(run_plan({"--gpus", "3072", "--model", "1T", "--threads", threads, "-o",
                                   (directory.path() / threads).string()})));
  }
  EXPECT_TRUE(content_of(directory.path() / "1") == content_of(directory.path() / "2"));
  EXPECT_TRUE(content_of(directory.path() / "1") == content_of(directory.path() / "8"));
}

TEST(Search, ThatFindsNothingSaysTheSameWithAnyNumberOfThreads) {
  const std::vector<std::string> arguments = {"--gpus", "127", "--model", "1T", "--threads"};
  std::vector<std::string> alone = arguments;
  alone.emplace_back("1");
  std::vector<std::string> together = arguments;
  together.emplace_back("8");
  EXPECT_EQ(run_plan(alone).errors, run_plan(together).errors);
}

TEST(Commands, GiveTheSameBytesInAGermanLocale) {
  const TemporaryDirectory directory;
  const RunOptions german{.environment = german_environment(directory)};
  if (german.environment.empty()) {
    GTEST_SKIP() << "localedef cannot make de_DE.UTF-8";
  }
  for (const char* format : kFormats) {
    EXPECT_TRUE(run_plan(search(format), german).output == run_plan(search(format)).output)
        << format;
  }
  EXPECT_TRUE(run_validate_few({}, german).output == run_validate_few().output);
}

TEST(Commands, ReadNumbersWithPointsInAGermanLocale) {
  const TemporaryDirectory directory;
  const RunOptions german{.environment = german_environment(directory)};
  if (german.environment.empty()) {
    GTEST_SKIP() << "localedef cannot make de_DE.UTF-8";
  }
  const std::vector<std::string> tiny = {"--gpus",    "8",           "--model",          "gpt-tiny",
                                         "--cluster", "selene-a100", "--memory-headroom"};
  std::vector<std::string> with_point = tiny;
  with_point.emplace_back("0.08");
  std::vector<std::string> with_comma = tiny;
  with_comma.emplace_back("0,08");
  EXPECT_TRUE(succeeds(run_plan(with_point, german)));
  EXPECT_TRUE(is_refused(run_plan(with_comma, german)));
}

TEST(Commands, RunWithALocaleThatIsNotInstalled) {
  const RunOptions strange{.environment = {{"LC_ALL", "xx_XX.UTF-8"}, {"LANG", "xx_XX.UTF-8"}}};
  EXPECT_TRUE(run_plan(search("table"), strange).output == run_plan(search("table")).output);
  EXPECT_TRUE(run_validate_few({}, strange).output == run_validate_few().output);
}

TEST(Commands, GiveTheSameBytesInAnyTimeZoneAndDirectory) {
  const TemporaryDirectory directory;
  for (const char* zone : {"Pacific/Kiritimati", "America/Anchorage", "nonsense"}) {
    const RunOptions options{.environment = {{"TZ", zone}, {"HOME", "/nowhere"}},
                             .directory = directory.path()};
    EXPECT_TRUE(run_plan(search("json"), options).output == run_plan(search("json")).output)
        << zone;
    EXPECT_TRUE(run_validate_few({}, options).output == run_validate_few().output) << zone;
  }
  EXPECT_TRUE(entries_of(directory.path()).empty());
}

// After a change of the cost model or of the rows:
// ptdp-validate --format markdown > profiles/published/README.md
TEST(ErrorPage, OfThePublishedRunsIsTheOneInTheTree) {
  const ProgramRun run = run_validate({"--format", "markdown"});
  ASSERT_TRUE(succeeds(run));
  EXPECT_TRUE(run.output == source_file("profiles/published/README.md"))
      << "profiles/published/README.md is not what ptdp-validate --format markdown writes";
}

TEST(Validation, GivesTheSameBytesEveryTime) {
  const std::vector<std::string> arguments = {"--format", "json", "--calibration", "leave-one-out",
                                              "--ranking"};
  const ProgramRun first = run_validate(arguments);
  ASSERT_TRUE(succeeds(first));
  EXPECT_TRUE(run_validate(arguments).output == first.output);
}

}  // namespace
}  // namespace ptdp
