// Tests ptdp-run as several processes that meet over TCP: the numbers of threads, and one report of
// every fault. The processes are started by hand, with the variables of launchers.
#include <gmock/gmock.h>

#include <csignal>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/transport/processes/tcp/socket.h"
#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;

/// Returns the variables that torchrun sets.
std::map<std::string, std::string> torchrun(int rank, int size, int port) {
  return {{"RANK", std::to_string(rank)},        {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", std::to_string(rank)},  {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)}, {"TORCHELASTIC_RUN_ID", "none"},
          {"PTDP_MEETING_TIMEOUT", "20"}};
}

/// Returns the variables that srun --mpi=none sets.
std::map<std::string, std::string> srun(int rank, int size, int port) {
  return {{"SLURM_JOB_ID", "4711"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_LOCALID", std::to_string(rank)},
          {"SLURM_STEP_NUM_TASKS", std::to_string(size)},
          {"SLURM_STEP_NODELIST", "localhost"},
          {"PTDP_MEETING_PORT", std::to_string(port)},
          {"PTDP_MEETING_TIMEOUT", "20"}};
}

/// A process of a job.
struct Process {
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  std::chrono::milliseconds delay{0};
  std::filesystem::path directory = ".";
};

/// Runs all processes at once.
std::vector<ProgramRun> run_all(const std::vector<Process>& processes) {
  std::vector<std::future<ProgramRun>> running;
  running.reserve(processes.size());
  for (const Process& process : processes) {
    running.push_back(std::async(std::launch::async, [&process] {
      std::this_thread::sleep_for(process.delay);
      return run_run(process.arguments,
                     {.environment = process.environment, .directory = process.directory});
    }));
  }
  std::vector<ProgramRun> runs;
  runs.reserve(running.size());
  for (std::future<ProgramRun>& run : running) {
    runs.push_back(run.get());
  }
  return runs;
}

std::vector<Process> all_with(const std::vector<std::string>& arguments, int size) {
  const int port = listen_on(0).port;
  std::vector<Process> processes;
  processes.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    processes.push_back({.arguments = arguments, .environment = torchrun(rank, size, port)});
  }
  return processes;
}

json report_in(const std::string& file) {
  return json::parse(content_of(file));
}

/// Returns how many of the processes say something of a fault.
int num_speakers(const std::vector<ProgramRun>& runs) {
  int count = 0;
  for (const ProgramRun& run : runs) {
    count += run.errors.find("ptdp-run: ") != std::string::npos ? 1 : 0;
  }
  return count;
}

// One of the processes comes late.
TEST(RunUnderTorchrun, GivesTheNumbersOfThreadsToTheBit) {
  const PlanFile plan(plan_of_four_ranks());
  const std::vector<std::string> flags = {plan.path(), "--quiet", "--steps", "3", "-o"};
  std::vector<std::string> of_threads = flags;
  of_threads.push_back(plan.in("threads.json"));
  std::vector<std::string> of_processes = flags;
  of_processes.push_back(plan.in("tcp.json"));
  ASSERT_TRUE(succeeds(run_run(of_threads)));
  std::vector<Process> processes = all_with(of_processes, 4);
  processes[3].delay = std::chrono::milliseconds(500);
  for (const ProgramRun& run : run_all(processes)) {
    ASSERT_TRUE(succeeds(run));
  }
  const json threads = report_in(plan.in("threads.json"));
  const json tcp = report_in(plan.in("tcp.json"));
  for (const char* key : {"losses", "gradient_norms", "traffic", "memory"}) {
    EXPECT_EQ(threads[key], tcp[key]) << key;
  }
  EXPECT_EQ(tcp["execution"]["transport"], "tcp");
  EXPECT_EQ(tcp["execution"]["hosts"].size(), 1U);
  EXPECT_EQ(tcp["execution"]["ranks"], 4);
}

TEST(RunUnderSrunWithoutPmi, MeetsAtTheFirstHostOfTheStep) {
  const PlanFile plan(plan_of_four_ranks());
  const int port = listen_on(0).port;
  std::vector<Process> processes;
  processes.reserve(4);
  for (int rank = 0; rank < 4; ++rank) {
    processes.push_back({.arguments = {plan.path(), "--quiet", "--steps", "2"},
                         .environment = srun(rank, 4, port)});
  }
  const std::vector<ProgramRun> runs = run_all(processes);
  for (const ProgramRun& run : runs) {
    ASSERT_TRUE(succeeds(run));
  }
  EXPECT_THAT(runs[0].output, HasSubstr("time per iteration"));
  EXPECT_EQ(runs[1].output, "");
}

TEST(RunUnderTorchrun, EndsAllWhereOneIsKilledAndNamesItsRank) {
  const PlanFile plan(plan_of_four_ranks());
  const std::vector<ProgramRun> runs = run_all(all_with(
      {plan.path(), "--quiet", "--steps", "50", "--inject", "rank=2,step=3,kind=F,what=kill"}, 4));
  EXPECT_EQ(runs[2].status, 128 + SIGKILL) << runs[2].errors;
  for (const int rank : {0, 1, 3}) {
    EXPECT_TRUE(ends_with(runs[static_cast<std::size_t>(rank)], kRuntimeFault));
  }
  EXPECT_THAT(runs[0].errors, HasSubstr("ptdp-run: rank 2"));
}

TEST(RunUnderTorchrun, EndsAllWhereOneFails) {
  const PlanFile plan(plan_of_four_ranks());
  const std::vector<ProgramRun> runs = run_all(all_with(
      {plan.path(), "--quiet", "--steps", "50", "--inject", "rank=3,step=3,kind=F,what=throw"}, 4));
  for (const ProgramRun& run : runs) {
    EXPECT_TRUE(ends_with(run, kRuntimeFault));
  }
  EXPECT_THAT(runs[3].errors, HasSubstr("ptdp-run: rank 3"));
}

TEST(RunUnderTorchrun, RefusesAnotherPlanOnSomeRank) {
  const PlanFile plan(plan_of_four_ranks());
  std::vector<Process> processes = all_with({plan.path(), "--quiet"}, 4);
  processes[2].arguments[0] = plan.file("other.json", plan_of_four_ranks() + "\n");
  const std::vector<ProgramRun> plans = run_all(processes);
  for (const ProgramRun& run : plans) {
    EXPECT_TRUE(ends_with(run, kBadInput));
  }
  EXPECT_THAT(plans[0].errors, ContainsRegex("rank 2 on host .*: expected the .* to be that of "
                                             "rank 0"));
  EXPECT_EQ(num_speakers(plans), 1);
}

// A host's own file at the same relative path.
TEST(RunUnderTorchrun, RefusesOtherOrdersOnSomeRank) {
  const PlanFile plan(plan_of_four_ranks());
  const auto orders = [](const char* schedule) {
    return run_sim({"--schedule", schedule, "--pp", "2", "--microbatches", "8", "--format", "csv",
                    "--orders"})
        .output;
  };
  const TemporaryDirectory usual;
  const TemporaryDirectory other;
  static_cast<void>(usual.file("orders.csv", orders("gpipe")));
  static_cast<void>(other.file("orders.csv", orders("1f1b")));
  std::vector<Process> processes =
      all_with({plan.path(), "--quiet", "--steps", "1", "--orders", "orders.csv"}, 4);
  for (Process& process : processes) {
    process.directory = usual.path();
  }
  for (const ProgramRun& run : run_all(processes)) {
    EXPECT_TRUE(succeeds(run));
  }
  const int port = listen_on(0).port;
  for (Process& process : processes) {
    process.environment["MASTER_PORT"] = std::to_string(port);
  }
  processes[3].directory = other.path();
  const std::vector<ProgramRun> runs = run_all(processes);
  for (const ProgramRun& run : runs) {
    EXPECT_TRUE(ends_with(run, kBadInput));
  }
  EXPECT_THAT(runs[0].errors,
              ContainsRegex("rank 3 on host .*: expected --orders to be that of rank 0"));
  EXPECT_EQ(num_speakers(runs), 1);
}

TEST(RunUnderTorchrun, SaysOnceThatProcessesDoNotCome) {
  const PlanFile plan(plan_of_four_ranks());
  std::vector<Process> processes = all_with({plan.path(), "--quiet"}, 4);
  processes[0].environment["PTDP_MEETING_TIMEOUT"] = "2";
  processes.erase(processes.begin() + 1);
  const std::vector<ProgramRun> runs = run_all(processes);
  for (const ProgramRun& run : runs) {
    EXPECT_TRUE(ends_with(run, kRuntimeFault));
  }
  EXPECT_THAT(
      runs[0].errors,
      ContainsRegex("ptdp-run: the meeting: 1 of 4 processes did not come to rank 0 .*: rank 1\n"));
  EXPECT_EQ(num_speakers(runs), 1);
}

TEST(RunUnderTorchrun, TurnsAwayASecondProcessOfOneRank) {
  const PlanFile plan(plan_of_four_ranks());
  std::vector<Process> processes = all_with({plan.path(), "--quiet"}, 3);
  processes[2].environment["RANK"] = "1";
  processes[0].environment["PTDP_MEETING_TIMEOUT"] = "2";
  const std::vector<ProgramRun> runs = run_all(processes);
  for (const ProgramRun& run : runs) {
    EXPECT_TRUE(ends_with(run, kRuntimeFault));
  }
  EXPECT_THAT(runs[0].errors, HasSubstr("rank 2; turned away rank 1 (process "));
  EXPECT_THAT(runs[1].errors + runs[2].errors, HasSubstr("refuses it: two processes are rank 1"));
  EXPECT_EQ(num_speakers(runs), 2);
}

TEST(RunUnderTorchrun, SaysWhereRankZeroIsNot) {
  std::map<std::string, std::string> environment = torchrun(1, 2, listen_on(0).port);
  environment["PTDP_MEETING_TIMEOUT"] = "1";
  const ProgramRun run = run_run({"plan.json"}, {.environment = environment});
  EXPECT_TRUE(ends_with(run, kRuntimeFault));
  EXPECT_THAT(run.errors, ContainsRegex("^ptdp-run: rank 1 on host .*: cannot join rank 0 at "
                                        "127.0.0.1:[0-9]+ within 1 s: Connection refused\n$"));
}

// Processes that ptdp-run starts itself, where there is no launcher.
TEST(RunOverTcp, StartsAProcessForEachRank) {
  const PlanFile plan(plan_of_four_ranks());
  const std::vector<std::string> arguments = {plan.path(), "--quiet", "--format", "json",
                                              "--dtype",   "f64",     "--steps",  "2"};
  std::vector<std::string> over_tcp = arguments;
  over_tcp.insert(over_tcp.end(), {"--transport", "tcp"});
  const ProgramRun threads = run_run(arguments);
  const ProgramRun processes = run_run(over_tcp);
  ASSERT_TRUE(ends_with(threads, 0));
  ASSERT_TRUE(ends_with(processes, 0));
  const json of_threads = json::parse(threads.output);
  const json of_processes = json::parse(processes.output);
  EXPECT_EQ(of_processes.at("losses"), of_threads.at("losses"));
  EXPECT_EQ(of_processes.at("execution").at("transport"), "tcp");
  EXPECT_EQ(of_threads.at("execution").at("transport"), "threads");
}

TEST(RunOverTcp, EndsWithTheStatusOfTheProcessThatFails) {
  const PlanFile plan(plan_of_four_ranks());
  const ProgramRun failed = run_run({plan.path(), "--quiet", "--transport", "tcp", "--steps", "2",
                                     "--inject", "rank=2,step=1,kind=F,what=kill"});
  EXPECT_TRUE(ends_with(failed, 128 + SIGKILL)) << failed.errors;
}

// A stopped process hears of nothing: it is ended some time after the others.
TEST(RunOverTcp, EndsAProcessThatIsStopped) {
  const PlanFile plan(plan_of_four_ranks());
  const ProgramRun failed =
      run_run({plan.path(), "--quiet", "--transport", "tcp", "--steps", "50", "--deadline", "2",
               "--inject", "rank=2,step=3,kind=F,what=stop"});
  EXPECT_TRUE(ends_with(failed, kRuntimeFault)) << failed.errors;
  EXPECT_THAT(failed.errors, HasSubstr("rank 2"));
}

}  // namespace
}  // namespace ptdp
