// Tests of output that cannot be written: a closed or full standard output, a place for the plan
// that takes none, two planners at one place.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

const std::vector<Stream> kDeadStreams = {Stream::kFull, Stream::kClosed, Stream::kNobodyReads};

std::vector<std::string> search_into(const std::string& output = "") {
  std::vector<std::string> arguments = {"--gpus",   "8",         "--model",
                                        "gpt-tiny", "--cluster", "selene-a100"};
  if (!output.empty()) {
    arguments.insert(arguments.end(), {"-o", output});
  }
  return arguments;
}

/// Expects status 5 with one line; for a pipe without a reader, the quiet end by SIGPIPE is as
/// good.
testing::AssertionResult fails_to_write(const ProgramRun& run, Stream stream) {
  if (stream == Stream::kNobodyReads && run.status == 128 + SIGPIPE) {
    return run.errors.empty() ? testing::AssertionSuccess()
                              : testing::AssertionFailure() << run.errors;
  }
  if (const testing::AssertionResult result = ends_with(run, kOutputFailed); !result) {
    return result;
  }
  const bool is_one_line =
      run.errors.starts_with(run.program + ": ") && run.errors.find('\n') + 1 == run.errors.size();
  return is_one_line ? testing::AssertionSuccess()
                     : testing::AssertionFailure() << "expected one line: " << run.errors;
}

/// Expects a whole plan, which `show` can read.
testing::AssertionResult is_whole_plan(const fs::path& file) {
  return succeeds(run_plan({"show", file.string()}));
}

TEST(StandardOutput, ThatTakesNothingEndsPtdpPlanWithItsStatus) {
  const TemporaryDirectory directory;
  const std::string plan = directory.file("plan.json", tiny_plan()).string();
  std::vector<std::vector<std::string>> rows = {
      {"list", "models"},
      {"list", "clusters"},
      {"list", "stacks"},
      {"show", plan},
      {"--help"},
      {"show", plan, "--format", "json"},
      {"compare", plan, plan},
      {"--version"},
      {"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100", "--explain", "tp=2"}};
  for (const char* format : {"table", "json", "csv"}) {
    rows.push_back(
        {"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100", "--format", format});
  }
  for (const Stream stream : kDeadStreams) {
    for (const std::vector<std::string>& row : rows) {
      EXPECT_TRUE(fails_to_write(run_plan(row, {.standard_output = stream}), stream));
    }
  }
}

TEST(StandardOutput, ThatTakesNothingEndsPtdpValidateWithItsStatus) {
  for (const Stream stream : kDeadStreams) {
    const RunOptions options{.standard_output = stream};
    EXPECT_TRUE(fails_to_write(run_validate_few({}, options), stream));
    for (const char* format : {"json", "markdown"}) {
      EXPECT_TRUE(fails_to_write(run_validate_few({"--format", format}, options), stream));
    }
    EXPECT_TRUE(fails_to_write(run_validate({"--help"}, options), stream));
  }
}

TEST(StandardOutput, ThatTakesNothingLosesNoPlan) {
  for (const Stream stream : kDeadStreams) {
    const TemporaryDirectory directory;
    const fs::path file = directory.path() / "plan.json";
    const ProgramRun run = run_plan(search_into(file.string()), {.standard_output = stream});
    EXPECT_TRUE(fails_to_write(run, stream));
    EXPECT_TRUE(is_whole_plan(file));
    EXPECT_EQ(entries_of(directory.path()), std::vector<std::string>{"plan.json"});
  }
}

// An input file must not become standard output by taking its free descriptor.
TEST(StandardOutput, ThatIsClosedLeavesInputFilesAlone) {
  const TemporaryDirectory directory;
  const fs::path model = directory.file("model.json", tiny_model());
  (void)run_plan({"--gpus", "8", "--model", model.string()}, {.standard_output = Stream::kClosed});
  EXPECT_EQ(content_of(model), tiny_model());
}

// The first file that is opened would get the descriptor of the closed stream.
TEST(StandardOutput, ThatIsClosedIsNotWrittenIntoTheLockOfCheckpoints) {
  const TemporaryDirectory directory;
  const std::string plan = (directory.path() / "plan.json").string();
  ASSERT_TRUE(
      succeeds(run_plan({"--gpus", "1", "--model", "gpt-tiny", "--cluster", "host", "-o", plan})));
  const fs::path saved = directory.path() / "saved";
  const ProgramRun run =
      run_run({plan, "--steps", "1", "--save", saved.string()},
              {.standard_output = Stream::kClosed, .standard_error = Stream::kClosed});
  EXPECT_EQ(run.status, kOutputFailed);
  EXPECT_LT(content_of(saved / ".lock").size(), 20U);  // the process that holds it
}

TEST(StandardError, ThatTakesNothingChangesNoStatus) {
  for (const Stream stream : {Stream::kFull, Stream::kClosed}) {
    const RunOptions options{.standard_error = stream};
    EXPECT_TRUE(ends_with(run_plan(search_into(), options), kDone));
    EXPECT_TRUE(ends_with(run_plan({"--gpus", "0"}, options), kBadInput));
    EXPECT_TRUE(ends_with(run_plan({"--gpus", "1", "--model", "1T"}, options), kNothingFits));
    EXPECT_TRUE(ends_with(run_validate_few({"--max-error", "0"}, options), kOutsideTolerance));
  }
}

TEST(StandardError, ThatIsClosedIsNotWrittenIntoThePlan) {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "plan.json";
  const RunOptions options{.standard_output = Stream::kClosed, .standard_error = Stream::kClosed};
  EXPECT_TRUE(ends_with(run_plan(search_into(file.string()), options), kOutputFailed));
  EXPECT_TRUE(is_whole_plan(file));
}

TEST(OutputFile, IsTheWholePlanAndNothingElse) {
  const TemporaryDirectory directory;
  const RunOptions here{.directory = directory.path()};
  EXPECT_TRUE(succeeds(run_plan(search_into("plan.json"), here)));
  EXPECT_EQ(entries_of(directory.path()), std::vector<std::string>{"plan.json"});
  EXPECT_TRUE(is_whole_plan(directory.path() / "plan.json"));
}

TEST(OutputFile, WhereNoneCanBeIsRefusedNamingThePath) {
  const TemporaryDirectory directory;
  const fs::path file = directory.file("file", "old");
  fs::create_directory(directory.path() / "folder");
  for (const fs::path& path :
       {fs::path("/nowhere/plan.json"), file / "plan.json", directory.path() / "folder",
        directory.path() / std::string(300, 'x'), fs::path("/proc/plan.json")}) {
    const ProgramRun run = run_plan(search_into(path.string()));
    EXPECT_TRUE(fails_to_write(run, Stream::kCaptured));
    EXPECT_THAT(run.errors, testing::HasSubstr(path.string()));
  }
  EXPECT_EQ(entries_of(directory.path()), (std::vector<std::string>{"file", "folder"}));
  EXPECT_EQ(content_of(file), "old");
}

TEST(OutputFile, WithoutANameIsRefusedNamingTheFlag) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(is_refused(
      run_plan({"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100", "-o", ""},
               {.directory = directory.path()}),
      {"--output"}));
  EXPECT_TRUE(entries_of(directory.path()).empty());
}

TEST(OutputFile, InADirectoryThatMayNotBeWrittenIsRefused) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root writes everywhere";
  }
  const TemporaryDirectory directory;
  const fs::path old = directory.file("closed/plan.json", "old");
  fs::permissions(old.parent_path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_TRUE(ends_with(run_plan(search_into(old.string())), kOutputFailed));
  EXPECT_EQ(content_of(old), "old");
  fs::permissions(old.parent_path(), fs::perms::owner_all);
}

// `ulimit -f 1` lets no file grow beyond 512 bytes: a disk that is full. The shell ignores the
// signal that comes with it, as a full disk sends none.
TEST(OutputFile, ThatExistsIsIntactWhenTheDiskIsFull) {
  const TemporaryDirectory directory;
  const std::string old_plan = tiny_plan();
  const fs::path file = directory.file("plan.json", old_plan);
  std::vector<std::string> arguments = {"-c", R"(trap '' XFSZ; ulimit -f 1; exec "$0" "$@")",
                                        plan_program().string()};
  for (const std::string& argument : search_into(file.string())) {
    arguments.push_back(argument);
  }
  const ProgramRun run = run_program("/bin/sh", arguments);
  EXPECT_TRUE(ends_with(run, kOutputFailed));
  EXPECT_EQ(run.output, "");
  EXPECT_TRUE(content_of(file) == old_plan);
  EXPECT_EQ(entries_of(directory.path()), std::vector<std::string>{"plan.json"});
}

// A rename would put a file where /dev/null or somebody's pipe was: for root, for everybody.
TEST(OutputFile, ThatIsAPipeStaysAPipe) {
  const TemporaryDirectory directory;
  const fs::path pipe = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const ProgramRun run = run_plan(search_into(pipe.string()));
  EXPECT_TRUE(ends_with(run, kOutputFailed));
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST(OutputFile, BesideWhatAKilledPlannerLeftIsWritten) {
  const TemporaryDirectory directory;
  const fs::path left = directory.file("plan.json.aB3dE6", "half a pl");
  EXPECT_TRUE(succeeds(run_plan(search_into((directory.path() / "plan.json").string()))));
  EXPECT_TRUE(is_whole_plan(directory.path() / "plan.json"));
  EXPECT_EQ(content_of(left), "half a pl");
}

/// Runs two planners that write different plans to one place; both must succeed.
void plan_twice_at_once(const fs::path& file) {
  const std::jthread rival([&] { EXPECT_TRUE(succeeds(run_plan(search_into(file.string())))); });
  EXPECT_TRUE(succeeds(run_plan({"--gpus", "4", "--model", "gpt-tiny", "--cluster", "selene-a100",
                                 "--output", file.string()})));
}

TEST(OutputFile, OfTwoPlannersAtATimeIsAlwaysOneWholePlan) {
  const TemporaryDirectory directory;
  const fs::path file = directory.path() / "plan.json";
  for (int round = 0; round < (kIsSanitized ? 10 : 50); ++round) {
    plan_twice_at_once(file);
    ASSERT_EQ(entries_of(directory.path()), std::vector<std::string>{"plan.json"});
    ASSERT_TRUE(is_whole_plan(file)) << "round " << round;
  }
}

TEST(OutputFile, IsWholeWheneverItIsRead) {
  const TemporaryDirectory directory;
  const fs::path file = directory.file("plan.json", tiny_plan());
  const std::jthread planner([&] {
    for (int round = 0; round < (kIsSanitized ? 5 : 20); ++round) {
      EXPECT_TRUE(succeeds(run_plan(search_into(file.string()))));
    }
  });
  for (int reading = 0; reading < 20; ++reading) {
    EXPECT_TRUE(is_whole_plan(file));
  }
}

}  // namespace
}  // namespace ptdp
