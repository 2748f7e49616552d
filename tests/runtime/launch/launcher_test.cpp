// Tests of how launchers are recognized by the environments that they make.
#include "runtime/launch/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "runtime/launch/slurm_hosts.h"

namespace ptdp {
namespace {

using ::testing::HasSubstr;

struct Row {
  const char* what;
  Environment environment;
  LauncherKind kind;
  const char* name;
  int rank;
  int size;
};

/// Returns what Slurm sets in a batch script of a job of eight tasks.
Environment in_batch_script(Environment more = {}) {
  more.insert({{"SLURM_JOB_ID", "17"},
               {"SLURM_PROCID", "0"},
               {"SLURM_LOCALID", "0"},
               {"SLURM_NTASKS", "8"},
               {"SLURM_NPROCS", "8"},
               {"SLURM_NODEID", "0"}});
  return more;
}

Environment in_step(const std::string& rank, Environment more = {}) {
  more.insert({{"SLURM_PROCID", rank}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  return in_batch_script(more);
}

Environment merged(Environment first, const Environment& second) {
  first.insert(second.begin(), second.end());
  return first;
}

const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"PMIX_RANK", "3"}};
const Environment kMpich = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "7"}};
const Environment kTorchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "5"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", "29500"}};

TEST(DetectLauncher, KnowsWhoStartedTheProcess) {
  const std::vector<Row> rows = {
      {"nobody", {{"HOME", "/root"}}, LauncherKind::kNone, "", 0, 1},
      {"mpirun of Open MPI", kOpenMpi, LauncherKind::kMpi, "mpirun", 3, 4},
      {"mpirun in a batch script", in_batch_script(kOpenMpi), LauncherKind::kMpi, "mpirun", 3, 4},
      {"mpirun whose daemons srun started", in_step("1", kOpenMpi), LauncherKind::kMpi, "mpirun", 3,
       4},
      {"mpiexec of MPICH", kMpich, LauncherKind::kMpi, "mpiexec", 1, 2},
      {"srun --mpi=pmi2", in_step("2", {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}), LauncherKind::kMpi,
       "srun", 2, 4},
      {"srun --mpi=pmix", in_step("2", {{"PMIX_RANK", "2"}, {"PMIX_NAMESPACE", "slurm.pmix.17"}}),
       LauncherKind::kMpi, "srun", 2, 4},
      {"a PMIx launcher that tells no size",
       {{"PMIX_RANK", "2"}},
       LauncherKind::kMpi,
       "mpiexec",
       2,
       0},
      {"srun --mpi=none", in_step("3"), LauncherKind::kSlurm, "srun", 3, 4},
      {"a batch script", in_batch_script(), LauncherKind::kNone, "", 0, 1},
      {"the batch script's own step", in_batch_script({{"SLURM_STEP_ID", "4294967291"}}),
       LauncherKind::kNone, "", 0, 1},
      {"a shell of salloc", in_batch_script({{"SLURM_STEP_ID", "4294967290"}}), LauncherKind::kNone,
       "", 0, 1},
      {"torchrun", kTorchrun, LauncherKind::kTorchrun, "torchrun", 5, 8},
      {"torchrun under srun", merged(in_step("0"), kTorchrun), LauncherKind::kTorchrun, "torchrun",
       5, 8},
      {"torch variables under mpirun", merged(kTorchrun, kOpenMpi), LauncherKind::kMpi, "mpirun", 3,
       4},
      {"a RANK of something else", {{"RANK", "general"}}, LauncherKind::kNone, "", 0, 1},
  };
  for (const Row& row : rows) {
    const Launcher launcher = detect_launcher(row.environment);
    EXPECT_EQ(launcher.kind, row.kind) << row.what;
    EXPECT_EQ(launcher.name, row.name) << row.what;
    EXPECT_EQ(launcher.rank, row.rank) << row.what;
    EXPECT_EQ(launcher.size, row.size) << row.what;
  }
}

std::string fault_of(const Environment& environment) {
  try {
    (void)detect_launcher(environment);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::kBadInput);
    return error.what();
  }
  return "nothing thrown";
}

TEST(DetectLauncher, NamesAVariableThatMakesNoSense) {
  EXPECT_THAT(fault_of({{"OMPI_COMM_WORLD_RANK", "one"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
              HasSubstr("OMPI_COMM_WORLD_RANK: expected a number of processes, got \"one\""));
  EXPECT_THAT(fault_of({{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}), HasSubstr("\"-1\""));
  EXPECT_THAT(fault_of({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}),
              HasSubstr("PMI_RANK: expected less than the 2 of PMI_SIZE, got 2"));
  EXPECT_THAT(fault_of({{"PMI_RANK", "1x"}, {"PMI_SIZE", "99999999999999999999"}}),
              HasSubstr("PMI_RANK"));
}

TEST(DetectLauncher, KnowsThePlaceOnTheHost) {
  EXPECT_EQ(detect_launcher(kOpenMpi).local_rank, 1);
  EXPECT_EQ(detect_launcher(kTorchrun).local_rank, 5);
  EXPECT_EQ(detect_launcher(in_step("3", {{"SLURM_LOCALID", "2"}})).local_rank, 2);
  EXPECT_EQ(detect_launcher(kMpich).local_rank, -1);
  // PyTorchJob: a process per pod.
  Environment pod = kTorchrun;
  pod.erase("LOCAL_RANK");
  EXPECT_EQ(detect_launcher(pod).local_rank, -1);
  EXPECT_EQ(detect_launcher(pod).rank, 5);
}

TEST(DetectLauncher, RefusesRanksOfNodes) {
  Environment node = kTorchrun;
  node.erase("LOCAL_RANK");
  node["NPROC_PER_NODE"] = "8";
  EXPECT_THAT(fault_of(node), HasSubstr("NPROC_PER_NODE is 8 without a LOCAL_RANK"));
  node["NPROC_PER_NODE"] = "1";
  EXPECT_EQ(fault_of(node), "nothing thrown");
  node["NPROC_PER_NODE"] = "8";
  node["LOCAL_RANK"] = "5";  // torchrun, started by it
  EXPECT_EQ(fault_of(node), "nothing thrown");
}

MeetingPlace place_in(const Environment& environment) {
  return find_meeting_place(environment, detect_launcher(environment));
}

std::string fault_of_place(const Environment& environment) {
  try {
    (void)place_in(environment);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::kBadInput);
    return error.what();
  }
  return "nothing thrown";
}

TEST(FindMeetingPlace, TakesThatOfTorchrun) {
  const Environment of_job = merged({{"TORCHELASTIC_RUN_ID", "run 7"}}, kTorchrun);
  const MeetingPlace place = place_in(of_job);
  EXPECT_EQ(place.address, "127.0.0.1");
  EXPECT_EQ(place.port, 29500);
  EXPECT_EQ(place.job, "run 7");
  EXPECT_EQ(place.timeout, std::nullopt);
}

// Torchrun's agent listens at MASTER_PORT itself.
TEST(FindMeetingPlace, LeavesTheAgentOfTorchrunItsPort) {
  EXPECT_EQ(place_in(merged({{"TORCHELASTIC_USE_AGENT_STORE", "True"}}, kTorchrun)).port, 29600);
  EXPECT_EQ(place_in(merged({{"TORCHELASTIC_USE_AGENT_STORE", "False"}}, kTorchrun)).port, 29500);
  EXPECT_EQ(place_in(merged({{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65500"}},
                            kTorchrun))
                .port,
            65400);
}

TEST(FindMeetingPlace, TakesTheFirstHostOfAStepAndAPortOfItsNumbers) {
  const Environment hosts = {{"SLURM_STEP_NODELIST", "gpu[007-009],gpu2"},
                             {"SLURM_JOB_NODELIST", "gpu[001-009]"}};
  const MeetingPlace place = place_in(in_step("3", hosts));
  EXPECT_EQ(place.address, "gpu007");
  EXPECT_EQ(place.port, 20000 + 17 * 7 + 0);
  EXPECT_EQ(place.job, "17.0");
  EXPECT_EQ(place_in(in_step("3", {{"SLURM_JOB_NODELIST", "gpu[001-009]"}})).address, "gpu001");
  // What the user sets comes before what Slurm says.
  const MeetingPlace asked =
      place_in(in_step("3", merged({{"MASTER_ADDR", "gpu8"}, {"MASTER_PORT", "6000"}}, hosts)));
  EXPECT_EQ(asked.address, "gpu8");
  EXPECT_EQ(asked.port, 6000);
}

TEST(FindMeetingPlace, TakesWhatMpirunPassesOn) {
  EXPECT_FALSE(detect_launcher(kOpenMpi).has_meeting);
  const Environment with_place =
      merged({{"MASTER_ADDR", "head"}, {"MASTER_PORT", "6000"}}, kOpenMpi);
  EXPECT_TRUE(detect_launcher(with_place).has_meeting);
  EXPECT_EQ(place_in(with_place).address, "head");
}

TEST(FindMeetingPlace, LetsTheUserChooseThePortAndTheTimeout) {
  const MeetingPlace place =
      place_in(merged({{"PTDP_MEETING_PORT", "7001"}, {"PTDP_MEETING_TIMEOUT", "30"}}, kTorchrun));
  EXPECT_EQ(place.port, 7001);
  EXPECT_EQ(place.timeout, Seconds(30.0));
  EXPECT_EQ(place.secret, "");
}

// The last port is 65535: a hundred above it there is none, a hundred below there is.
TEST(FindMeetingPlace, KeepsToPortsThatThereAre) {
  const auto behind_agent = [](const std::string& port) {
    return place_in(
               merged({{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", port}}, kTorchrun))
        .port;
  };
  EXPECT_EQ(behind_agent("65435"), 65535);
  EXPECT_EQ(behind_agent("65436"), 65336);
  EXPECT_EQ(place_in(merged({{"MASTER_PORT", "65535"}}, kTorchrun)).port, 65535);
  EXPECT_EQ(place_in(merged({{"MASTER_PORT", "1"}}, kTorchrun)).port, 1);
  EXPECT_THAT(fault_of_place(merged({{"PTDP_MEETING_PORT", "65536"}}, kTorchrun)),
              HasSubstr("PTDP_MEETING_PORT: expected a port, got \"65536\""));
}

// (7·job + step) modulo 10000, from 20000 on: 7·1429 = 10003.
TEST(FindMeetingPlace, GivesStepsOfAJobPortsBesideOneAnother) {
  const auto port_of = [](const std::string& job, const std::string& step) {
    Environment environment = in_step("1", {{"SLURM_STEP_NODELIST", "gpu1"}});
    environment["SLURM_JOB_ID"] = job;
    environment["SLURM_STEP_ID"] = step;
    return place_in(environment).port;
  };
  EXPECT_EQ(port_of("1429", "0"), 20003);
  EXPECT_EQ(port_of("1429", "2"), 20005);
  EXPECT_EQ(port_of("1428", "3"), 29999);
  EXPECT_EQ(port_of("1428", "4"), 20000);
  Environment without_job = in_step("1", {{"SLURM_STEP_NODELIST", "gpu1"}});
  without_job.erase("SLURM_JOB_ID");
  without_job["SLURM_STEP_ID"] = "6";
  EXPECT_EQ(place_in(without_job).port, 20006);
}

TEST(FindMeetingPlace, TakesASecretAndRefusesAnEmptyOne) {
  EXPECT_EQ(place_in(merged({{"PTDP_JOB_SECRET", "s 1"}}, kTorchrun)).secret, "s 1");
  EXPECT_THAT(fault_of_place(merged({{"PTDP_JOB_SECRET", ""}}, kTorchrun)),
              HasSubstr("environment: PTDP_JOB_SECRET: expected a secret, got nothing"));
}

TEST(FindMeetingPlace, WaitsASecondAtLeastAndADayAtMost) {
  for (const auto& [text, seconds] : {std::pair("1", 1.0), {"86400", 86400.0}}) {
    EXPECT_EQ(place_in(merged({{"PTDP_MEETING_TIMEOUT", text}}, kTorchrun)).timeout,
              Seconds(seconds));
  }
  EXPECT_THAT(fault_of_place(merged({{"PTDP_MEETING_TIMEOUT", "86401"}}, kTorchrun)),
              HasSubstr("PTDP_MEETING_TIMEOUT: expected seconds from 1 to 86400, got \"86401\""));
}

// Steps from 4294967280 (0xFFFFFFF0) on are Slurm's own.
TEST(DetectLauncher, KnowsTheLastStepThatIsAUsers) {
  EXPECT_EQ(detect_launcher(in_step("0", {{"SLURM_STEP_ID", "4294967279"}})).kind,
            LauncherKind::kSlurm);
  EXPECT_EQ(detect_launcher(in_step("0", {{"SLURM_STEP_ID", "4294967280"}})).kind,
            LauncherKind::kNone);
}

// The tasks of the step; where it does not say them, those of the job.
TEST(DetectLauncher, CountsTheTasksOfTheStep) {
  Environment step = in_step("7");
  EXPECT_THAT(fault_of(step), HasSubstr("SLURM_PROCID: expected less than the 4 of "
                                        "SLURM_STEP_NUM_TASKS, got 7"));
  step.erase("SLURM_STEP_NUM_TASKS");
  EXPECT_EQ(detect_launcher(step).size, 8);
  EXPECT_EQ(detect_launcher(step).rank, 7);
  step["PMIX_RANK"] = "6";
  EXPECT_EQ(detect_launcher(step).size, 8);
  EXPECT_EQ(detect_launcher(step).rank, 6);
}

// The place is that of the launcher that counts: torchrun's place is not that of mpirun's process,
// nor the reverse.
TEST(DetectLauncher, TakesThePlaceFromTheLauncherItself) {
  EXPECT_EQ(detect_launcher(merged(kTorchrun, kOpenMpi)).local_rank, 1);
  EXPECT_EQ(detect_launcher(merged(in_step("0"), kTorchrun)).local_rank, 5);
  EXPECT_EQ(detect_launcher(merged({{"MPI_LOCALRANKID", "2"}}, kMpich)).local_rank, 2);
  EXPECT_EQ(detect_launcher(merged({{"LOCAL_RANK", "3"}}, kMpich)).local_rank, -1);
}

TEST(FindMeetingPlace, NamesWhatIsMissingOrMakesNoSense) {
  EXPECT_THAT(fault_of_place(kOpenMpi), HasSubstr("expected MASTER_ADDR"));
  EXPECT_THAT(fault_of_place(merged({{"MASTER_ADDR", "head"}}, kOpenMpi)),
              HasSubstr("expected MASTER_PORT"));
  for (const char* port : {"0", "65536", "http", "-1", ""}) {
    EXPECT_THAT(fault_of_place(merged({{"MASTER_PORT", port}}, kTorchrun)),
                HasSubstr("MASTER_PORT: expected a port, got \"" + std::string(port) + "\""));
  }
  EXPECT_THAT(fault_of_place(merged({{"PTDP_MEETING_TIMEOUT", "0"}}, kTorchrun)),
              HasSubstr("PTDP_MEETING_TIMEOUT: expected seconds from 1 to 86400, got \"0\""));
}

// The forms of Slurm's manual (scontrol, "show hostnames"; srun, --nodelist).
TEST(FirstSlurmHost, ReadsTheFormsOfSlurm) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"localhost", "localhost"},
      {"lx[10-20]", "lx10"},
      {"gpu[001-004,7],login1", "gpu001"},
      {"login1,gpu[001-004,7]", "login1"},
      {"tux[0-2,12]", "tux0"},
      {"linux[00-07]", "linux00"},
      {"rack[3-5]node[08,1-2]", "rack3node08"},
      {"node[5]-ib.cluster", "node5-ib.cluster"},
      {"n[1,3-9]m", "n1m"},
  };
  for (const auto& [list, first] : rows) {
    EXPECT_EQ(first_slurm_host(list), first) << list;
  }
}

TEST(FirstSlurmHost, RefusesWhatIsNoList) {
  for (const char* list :
       {"", ",gpu1", "gpu[1-2", "gpu1]", "gpu[]", "gpu[-3]", "gpu[a-b]", "gpu[[1]]", "a b"}) {
    try {
      (void)first_slurm_host(list);
      ADD_FAILURE() << list;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::kBadInput);
      EXPECT_THAT(error.what(), HasSubstr("got \"" + std::string(list) + '"'));
    }
  }
}

}  // namespace
}  // namespace ptdp
