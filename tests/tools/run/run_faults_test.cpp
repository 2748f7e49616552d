// Tests of ptdp-run when something goes wrong: how it ends, what it says, what it leaves behind.
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <regex>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// A directory with a plan of four ranks.
class FaultyRun {
 public:
  FaultyRun() { static_cast<void>(directory_.file("plan.json", plan_of_four_ranks())); }

  [[nodiscard]] std::string in(const std::string& name) const {
    return (directory_.path() / name).string();
  }
  [[nodiscard]] ProgramRun run(std::vector<std::string> flags, RunOptions options = {}) const {
    flags.insert(flags.begin(), in("plan.json"));
    return run_run(flags, std::move(options));
  }

 private:
  TemporaryDirectory directory_;
};

TEST(RunWithAFault, NamesRankAndActionAndReportsTheStepsBefore) {
  const FaultyRun faulty;
  const ProgramRun run =
      faulty.run({"--quiet", "--steps", "5", "--inject", "rank=3,action=1B0,step=4,what=throw",
                  "-o", faulty.in("run.json"), "--dump-actions", faulty.in("actions.txt")});
  EXPECT_TRUE(ends_with(run, kRuntimeFault));
  EXPECT_THAT(run.errors, HasSubstr("ptdp-run: rank 3: 1B0 of step 4: a fault on purpose"));
  EXPECT_THAT(run.errors, HasSubstr("rank 3 has worked in 1B0 of step 4 for "));
  EXPECT_THAT(run.output, HasSubstr("Ended after 3 of 5 steps."));
  const json document = json::parse(content_of(faulty.in("run.json")));
  EXPECT_EQ(document["execution"]["steps"], 3);
  EXPECT_EQ(document["execution"]["requested_steps"], 5);
  EXPECT_EQ(document["losses"].size(), 3U);
  EXPECT_TRUE(succeeds(run_validate({faulty.in("run.json")})));
  for (const char* rank : {"rank 0 ", "rank 1 ", "rank 2 ", "rank 3 "}) {
    EXPECT_THAT(content_of(faulty.in("actions.txt")), HasSubstr(rank));
  }
}

TEST(RunWithAFault, EndsThoughARankNeverDoes) {
  const FaultyRun faulty;
  const ProgramRun run =
      faulty.run({"--quiet", "--steps", "5", "--deadline", "1", "--inject",
                  "rank=2,kind=F,step=3,what=hang", "-o", faulty.in("run.json")});
  EXPECT_TRUE(ends_with(run, kRuntimeFault));
  EXPECT_THAT(run.errors, HasSubstr("ptdp-run: rank 2: 1F0 of step 3: has not ended for "));
  EXPECT_EQ(json::parse(content_of(faulty.in("run.json")))["execution"]["steps"], 2);
}

TEST(RunWithAFault, SaysWhatMemoryWasPredictedWhereItDoesNotSuffice) {
  const FaultyRun faulty;
  const ProgramRun run = faulty.run({"--quiet", "--inject", "rank=1,kind=B,step=2,what=alloc"});
  EXPECT_TRUE(ends_with(run, kRuntimeFault));
  EXPECT_THAT(run.errors, HasSubstr("rank 1: 0B0 of step 2: out of memory"));
  EXPECT_THAT(run.errors, HasSubstr("rank 1 had allocated "));
  EXPECT_THAT(run.errors, HasSubstr(": weights "));
  EXPECT_THAT(run.errors, HasSubstr(", the rest "));
  EXPECT_THAT(run.errors, HasSubstr("predicted "));
  EXPECT_THAT(run.errors, HasSubstr(" activations "));
  EXPECT_THAT(run.errors, HasSubstr("--recompute"));
}

/// Runs the program as a user who may have one process or thread.
ProgramRun run_as_other_user(const std::string& program,
                             const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"--reuid",        "61234",   "--regid",     "61234",
                                    "--clear-groups", "prlimit", "--nproc=1:1", program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  // The sanitizer's look for leaks wants a thread of its own.
  return run_program("/usr/bin/setpriv", words,
                     {.environment = {{"PTDP_PROFILES", PTDP_SOURCE_DIR "/profiles"},
                                      {"ASAN_OPTIONS", "detect_leaks=0"}}});
}

// Libraries that start threads when they are loaded would end it before it says a word.
TEST(RunWithAFault, SaysThatThereIsNoThreadToStart) {
  const FaultyRun faulty;
  fs::permissions(fs::path(faulty.in("plan.json")).parent_path(), fs::perms{0755});
  if (::geteuid() != 0 || !fs::exists("/usr/bin/setpriv") ||
      run_as_other_user("/usr/bin/test", {"-x", run_program_path().string()}).status != 0) {
    GTEST_SKIP() << "needs root, setpriv and prlimit, and a build that others may run";
  }
  const ProgramRun run =
      run_as_other_user(run_program_path().string(), {faulty.in("plan.json"), "--quiet"});
  EXPECT_TRUE(ends_with(run, kRuntimeFault));
  EXPECT_THAT(run.errors, HasSubstr("ptdp-run: cannot start the thread "));
}

TEST(RunWithAFault, GoesOnWhereARankIsSlow) {
  const FaultyRun faulty;
  const ProgramRun run = faulty.run(
      {"--quiet", "--steps", "3", "--deadline", "20", "--inject", "rank=1,what=slow:10"});
  EXPECT_TRUE(succeeds(run));
}

TEST(RunWithAFault, SaysItWhateverStandardOutputIs) {
  const FaultyRun faulty;
  for (const Stream stream : {Stream::kFull, Stream::kClosed, Stream::kNobodyReads}) {
    const ProgramRun run =
        faulty.run({"--quiet", "--steps", "4", "--inject", "rank=3,kind=B,step=3,what=throw", "-o",
                    faulty.in("run.json")},
                   {.standard_output = stream});
    EXPECT_TRUE(ends_with(run, kRuntimeFault));
    EXPECT_THAT(run.errors, HasSubstr("rank 3: 1B0 of step 3: a fault on purpose"));
    EXPECT_EQ(json::parse(content_of(faulty.in("run.json")))["execution"]["steps"], 2);
    fs::remove(faulty.in("run.json"));
  }
}

TEST(RunWithAFault, RefusesFaultsAndDeadlinesThatAreNone) {
  const FaultyRun faulty;
  for (const char* fault : {"rank=4,what=throw", "rank=0,action=1F0,what=throw",
                            "rank=0,kind=UNSHARD,what=throw", "what=throw", "rank=1"}) {
    EXPECT_TRUE(is_refused(faulty.run({"--inject", fault}), {"--inject"})) << fault;
  }
  for (const char* deadline : {"0", "-1", "soon", "nan", "1e99"}) {
    EXPECT_TRUE(is_refused(faulty.run({"--deadline", deadline}), {"--deadline", deadline}));
  }
}

TEST(InterruptedRun, EndsAtOnceWithTheReportSoFar) {
  const FaultyRun faulty;
  for (const int signal : {SIGINT, SIGTERM}) {
    const ProgramRun run = faulty.run({"--steps", "1000000", "-o", faulty.in("run.json")},
                                      {.signals = {{"step       1/1000000", signal}}});
    EXPECT_TRUE(ends_with(run, 128 + signal));
    EXPECT_THAT(run.errors, HasSubstr("ptdp-run: interrupted after "));
    EXPECT_THAT(run.output, HasSubstr(" of 1000000 steps."));
    const json document = json::parse(content_of(faulty.in("run.json")));
    EXPECT_EQ(document["execution"]["requested_steps"], 1000000);
    EXPECT_GE(document["execution"]["steps"], 1);
    EXPECT_LT(run.seconds_after_signal, kRunawaySeconds);
  }
}

// The action lasts for hours, as a product on a device may.
TEST(InterruptedRun, EndsThoughARankIsInALongAction) {
  const FaultyRun faulty;
  const ProgramRun run = faulty.run(
      {"--steps", "100", "--deadline", "off", "--inject", "rank=1,kind=B,step=2,what=hang"},
      {.signals = {{"step   1/100", SIGINT}}});
  EXPECT_TRUE(ends_with(run, 128 + SIGINT));
  EXPECT_THAT(run.output, HasSubstr("Ended after 1 of 100 steps."));
}

TEST(InterruptedRun, EndsAtOnceAtTheSecondSignal) {
  const FaultyRun faulty;
  const ProgramRun run = faulty.run(
      {"--steps", "100", "--deadline", "off", "--inject", "rank=1,kind=B,step=2,what=hang"},
      {.signals = {{"step   1/100", SIGINT}, {"step   1/100", SIGTERM}}});
  // The first may have been seen to the end before the second came.
  EXPECT_THAT((std::vector<int>{128 + SIGINT, 128 + SIGTERM}), Contains(run.status));
}

TEST(InterruptedRun, SavesAtUsr1BehindItsStepAndGoesOnFromThere) {
  const FaultyRun faulty;
  const std::vector<std::string> saves = {"--save", faulty.in("checkpoints"), "--resume",
                                          faulty.in("checkpoints")};
  std::vector<std::string> flags = {"--steps", "1000000"};
  flags.insert(flags.end(), saves.begin(), saves.end());
  const ProgramRun first = faulty.run(flags, {.signals = {{"step       1/1000000", SIGUSR1}}});
  EXPECT_TRUE(ends_with(first, kDone));
  EXPECT_THAT(first.errors, HasSubstr("no checkpoint yet"));
  std::smatch found;
  ASSERT_TRUE(std::regex_search(first.output, found, std::regex("Ended after ([0-9]+) of")));
  const std::int64_t done = std::stoll(found[1]);
  flags = {"--quiet",  "--steps", std::to_string(done + 2), "--lr-decay", "1000000",
           "--format", "json"};
  flags.insert(flags.end(), saves.begin(), saves.end());
  const ProgramRun second = faulty.run(flags);
  EXPECT_TRUE(succeeds(second));
  const json execution = json::parse(second.output)["execution"];
  EXPECT_EQ(execution["first_step"], done);
  EXPECT_EQ(execution["steps"], 2);
}

TEST(SavedSteps, AreSafeFromASecondRun) {
  const FaultyRun faulty;
  const std::string directory = faulty.in("checkpoints");
  EXPECT_TRUE(succeeds(faulty.run({"--quiet", "--steps", "3", "--save", directory})));
  // A run that begins anew would leave steps of two runs side by side.
  EXPECT_TRUE(is_refused(faulty.run({"--quiet", "--steps", "1", "--save", directory}),
                         {"--save", "step 3", "--resume"}));
  const std::vector<std::string> goes_on = {"--quiet", "--steps", "4",        "--lr-decay", "3",
                                            "--save",  directory, "--resume", directory};
  EXPECT_TRUE(succeeds(faulty.run(goes_on)));
  // A run that saves into it at the same time.
  const ProgramRun both = run_program(
      "/bin/sh",
      {"-c", R"("$0" "$1" --steps 1000000 --save "$2" --resume "$2" 2> "$3" > /dev/null &
              first=$!
              until grep -q '^step ' "$3"; do sleep 0.05; done
              "$0" "$1" --quiet --steps 1000000 --save "$2" --resume "$2"; status=$?
              kill -KILL $first
              wait $first
              exit $status)",
       run_program_path().string(), faulty.in("plan.json"), directory, faulty.in("log")});
  EXPECT_EQ(both.status, kOutputFailed);
  EXPECT_THAT(both.errors, HasSubstr("another run saves into"));
  // The killed run's lock went with it.
  const ProgramRun next =
      faulty.run({"--quiet", "--steps", "5", "--save", directory, "--resume", directory});
  EXPECT_TRUE(ends_with(next, kDone));
}

}  // namespace
}  // namespace ptdp
