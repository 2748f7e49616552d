// Environments as launchers make them.
#include "runtime/transport/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cost_model/error.h"

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

/// What Slurm sets in a batch script of a job of eight tasks.
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

}  // namespace
}  // namespace ptdp
