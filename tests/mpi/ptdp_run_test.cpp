// Tests ptdp-run under mpirun: the numbers of threads, and one report of every fault.
#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// As root, and with more ranks than cores: Open MPI 4, and 5. Open MPI leaves memory behind.
const std::map<std::string, std::string> kMpiEnvironment = {
    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
    {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
    {"ASAN_OPTIONS", "detect_leaks=0"},
    {"PTDP_PROFILES", PTDP_SOURCE_DIR "/profiles"}};

/// Runs `mpirun -n ranks ptdp-run arguments`.
ProgramRun run_processes(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {PTDP_MPIEXEC_COUNT_FLAG, std::to_string(ranks),
                                    run_program_path().string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_program(PTDP_MPIEXEC, words, {.environment = kMpiEnvironment});
}

/// Counts how often `part` is in `text`.
int times_in(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

json report_in(const std::string& file) {
  return json::parse(content_of(file));
}

// Losses, norms, bytes and memory; times are measured.
TEST(RunUnderMpirun, GivesTheNumbersOfThreadsToTheBit) {
  const std::vector<std::vector<std::string>> layouts = {
      {"--gpus", "4", "--tp", "2", "--pp", "2", "--dp", "1", "--micro-batch-size", "1"},
      {"--gpus", "4", "--tp", "1", "--pp", "2", "--dp", "2", "--micro-batch-size", "1"},
      {"--gpus", "3", "--tp", "1", "--pp", "1", "--dp", "2", "--micro-batch-size", "2"}};
  for (const auto& layout : layouts) {
    const PlanFile plan(plan_of_small(layout));
    const int ranks = report_in(plan.path())["config"]["tp"].get<int>() *
                      report_in(plan.path())["config"]["pp"].get<int>() *
                      report_in(plan.path())["config"]["dp"].get<int>();
    const std::vector<std::string> flags = {plan.path(), "--quiet", "--steps", "3", "-o"};
    std::vector<std::string> of_threads = flags;
    of_threads.push_back(plan.in("threads.json"));
    std::vector<std::string> of_processes = flags;
    of_processes.push_back(plan.in("mpi.json"));
    ASSERT_TRUE(succeeds(run_run(of_threads)));
    ASSERT_TRUE(succeeds(run_processes(ranks, of_processes)));
    const json threads = report_in(plan.in("threads.json"));
    const json mpi = report_in(plan.in("mpi.json"));
    for (const char* key : {"losses", "gradient_norms", "traffic", "memory"}) {
      EXPECT_EQ(threads[key], mpi[key]) << key << " of " << ranks << " ranks";
    }
    EXPECT_EQ(mpi["execution"]["transport"], "mpi");
    EXPECT_EQ(mpi["execution"]["hosts"].size(), 1U);
    EXPECT_EQ(mpi["execution"]["ranks"], ranks);
    EXPECT_GT(mpi["measured"]["iteration_time_s"], 0.0);
  }
}

TEST(RunUnderMpirun, ReportsOnceAndTellsOfItsSteps) {
  const PlanFile plan(plan_of_four_ranks());
  const ProgramRun run =
      run_processes(4, {plan.path(), "--steps", "3", "--trace", plan.in("trace.json")});
  EXPECT_EQ(run.status, kDone) << run.errors;
  EXPECT_EQ(times_in(run.output, "time per iteration"), 1);
  EXPECT_EQ(times_in(run.output, "on 4 processes of "), 1);
  EXPECT_EQ(times_in(run.errors, "step 1/3"), 1);
  int forwards = 0;
  const json trace = report_in(plan.in("trace.json"));
  for (const json& event : trace["traceEvents"]) {
    const std::string name = event.value("name", "");
    forwards += event.value("ph", "") == "X" && name.find('F') == 1 ? 1 : 0;
  }
  EXPECT_EQ(forwards, 16);
}

// A run of five steps, and one of three whose checkpoint another layout goes on from.
TEST(RunUnderMpirun, WritesCheckpointsThatThreadsResume) {
  const PlanFile plan(plan_of_four_ranks());
  const std::vector<std::string> common = {plan.path(), "--quiet", "--lr-decay",
                                           "5",         "--dtype", "f64"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = common;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_TRUE(succeeds(run_run(with({"--steps", "5", "-o", plan.in("whole.json")}))));
  ASSERT_TRUE(succeeds(run_processes(4, with({"--steps", "3", "--save", plan.in("kept")}))));
  ASSERT_TRUE(succeeds(
      run_run(with({"--steps", "5", "--resume", plan.in("kept"), "-o", plan.in("threads.json")}))));
  ASSERT_TRUE(succeeds(run_processes(
      4, with({"--steps", "5", "--resume", plan.in("kept"), "-o", plan.in("mpi.json")}))));
  const json whole = report_in(plan.in("whole.json"))["losses"];
  EXPECT_EQ(report_in(plan.in("threads.json"))["losses"], json({whole[3], whole[4]}));
  EXPECT_EQ(report_in(plan.in("mpi.json"))["losses"], json({whole[3], whole[4]}));
}

TEST(RunUnderMpirun, SaysOnceThatTheNumbersOfRanksDiffer) {
  const PlanFile plan(plan_of_four_ranks());
  const ProgramRun run = run_processes(3, {plan.path(), "--quiet"});
  EXPECT_EQ(run.status, kBadInput);
  EXPECT_EQ(run.output.find("time per iteration"), std::string::npos);
  EXPECT_EQ(times_in(run.errors, "ptdp-run: "), 1) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("the plan has 4 ranks, but 3 processes were started"));
}

TEST(RunUnderMpirun, SaysOnceWhatIsWrongWithItsFlagsAndFiles) {
  const PlanFile plan(plan_of_four_ranks());
  for (const auto& [arguments, word] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{plan.path(), "--stepps", "3"}, "--stepps"},
           {{plan.in("missing.json")}, "missing.json"},
           {{plan.path(), "--transport", "mpi2"}, "mpi2"},
           {{plan.path(), "--transport", "threads"}, "expected one process"}}) {
    const ProgramRun run = run_processes(2, arguments);
    EXPECT_EQ(run.status, kBadInput) << run.errors;
    EXPECT_EQ(times_in(run.errors, "ptdp-run: "), 1) << run.errors;
    EXPECT_THAT(run.errors, HasSubstr(word));
  }
}

TEST(RunUnderMpirun, AnswersForHelpOnce) {
  const ProgramRun run = run_processes(2, {"--version"});
  EXPECT_EQ(run.status, kDone);
  EXPECT_EQ(times_in(run.output, "ptdp-run"), 1) << run.output;
}

// Two programs of one job: mpirun -n 1 ... : -n 1 ...
TEST(RunUnderMpirun, RefusesAnotherPlanOrCommandLineOnSomeRank) {
  const PlanFile plan(plan_of_small({"--gpus", "2", "--tp", "2", "--pp", "1", "--dp", "1"}));
  const std::string program = run_program_path().string();
  const auto run_both = [&](const std::vector<std::string>& first,
                            const std::vector<std::string>& second) {
    std::vector<std::string> words = {PTDP_MPIEXEC_COUNT_FLAG, "1", program};
    words.insert(words.end(), first.begin(), first.end());
    words.insert(words.end(), {":", PTDP_MPIEXEC_COUNT_FLAG, "1", program});
    words.insert(words.end(), second.begin(), second.end());
    return run_program(PTDP_MPIEXEC, words, {.environment = kMpiEnvironment});
  };
  const ProgramRun flags = run_both({plan.path(), "--quiet"}, {plan.path(), "--steps", "3"});
  EXPECT_EQ(flags.status, kBadInput);
  EXPECT_EQ(times_in(flags.errors, "ptdp-run: "), 1) << flags.errors;
  EXPECT_THAT(flags.errors, HasSubstr("rank 1 on host "));
  EXPECT_THAT(flags.errors, HasSubstr("expected the command line to be that of rank 0"));

  // A host's own copy at the same relative path.
  const TemporaryDirectory other;
  const auto copy = other.file("plan.json", content_of(plan.path()) + "\n");
  std::vector<std::string> words = {PTDP_MPIEXEC_COUNT_FLAG,
                                    "1",
                                    "-wdir",
                                    plan.in(""),
                                    program,
                                    "plan.json",
                                    ":",
                                    PTDP_MPIEXEC_COUNT_FLAG,
                                    "1",
                                    "-wdir",
                                    copy.parent_path().string(),
                                    program,
                                    "plan.json"};
  const ProgramRun plans = run_program(PTDP_MPIEXEC, words, {.environment = kMpiEnvironment});
  EXPECT_EQ(plans.status, kBadInput);
  EXPECT_THAT(plans.errors, HasSubstr("expected the plan to be that of rank 0"));

  // The file exists on rank 0 only.
  words.back() = "gone.json";
  words[5] = plan.file("gone.json", content_of(plan.path()));
  const ProgramRun missing = run_program(PTDP_MPIEXEC, words, {.environment = kMpiEnvironment});
  EXPECT_EQ(missing.status, kBadInput);
  EXPECT_EQ(times_in(missing.errors, "ptdp-run: "), 1) << missing.errors;
  EXPECT_THAT(missing.errors, HasSubstr("rank 1 on host "));
  EXPECT_THAT(missing.errors, HasSubstr("gone.json"));
}

// The gradients of a rate beyond reason overflow.
TEST(RunUnderMpirun, EndsTheJobWithTheStatusOfTheRankThatFails) {
  const PlanFile plan(plan_of_four_ranks());
  const ProgramRun run =
      run_processes(4, {plan.path(), "--quiet", "--steps", "50", "--lr", "1000", "--clip", "0"});
  EXPECT_EQ(run.status, 4) << run.errors;
  EXPECT_FALSE(run.is_timed_out);
  EXPECT_THAT(run.errors, HasSubstr("ptdp-run: rank "));
  EXPECT_THAT(run.errors, Not(HasSubstr("another rank failed")));
}

TEST(RunWithoutMpirun, RunsAWorldOfOneWithMpi) {
  const PlanFile plan(plan_of_small({"--gpus", "1"}));
  const ProgramRun run = run_run({plan.path(), "--quiet", "--steps", "2", "--transport", "mpi"},
                                 {.environment = kMpiEnvironment});
  ASSERT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, HasSubstr("on 1 process of "));
}

TEST(RunUnderMpirun, RunsThreadsInASingleProcess) {
  const PlanFile plan(plan_of_four_ranks());
  const ProgramRun run =
      run_processes(1, {plan.path(), "--quiet", "--steps", "2", "--transport", "threads"});
  ASSERT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, HasSubstr("on 4 threads"));
}

}  // namespace
}  // namespace ptdp
