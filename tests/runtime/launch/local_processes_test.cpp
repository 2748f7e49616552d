// Tests the environment that ptdp-run gives the processes that it starts itself: as launchers are
// recognized, each process finds its place and the others.
#include "runtime/launch/local_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/launch/launcher.h"

namespace ptdp {
namespace {

constexpr int kRank = 2;
constexpr int kSize = 4;
constexpr std::uint16_t kPort = 41234;

Environment started_within(const Environment& environment) {
  return environment_of_process(environment, kRank, kSize, kPort, "a secret");
}

TEST(EnvironmentOfProcess, HasTheVariablesOfTorchDistributedAndWhatWasThere) {
  EXPECT_EQ(started_within({{"HOME", "/root"}, {"CUDA_VISIBLE_DEVICES", "4,5,6,7"}}),
            (Environment{{"HOME", "/root"},
                         {"CUDA_VISIBLE_DEVICES", "4,5,6,7"},
                         {"RANK", "2"},
                         {"LOCAL_RANK", "2"},
                         {"WORLD_SIZE", "4"},
                         {"LOCAL_WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", "41234"},
                         {"PTDP_JOB_SECRET", "a secret"},
                         {"PTDP_STARTER", "ptdp-run"}}));
}

// A starter may itself be the one process of mpirun or torchrun, lie in an allocation of Slurm, or
// have variables by which users of torchrun and of ptdp-run choose ports.
TEST(EnvironmentOfProcess, IsThatOfThisJobWhereverItWasStarted) {
  const Environment alone_under_mpirun = {{"OMPI_COMM_WORLD_RANK", "0"},
                                          {"OMPI_COMM_WORLD_SIZE", "1"},
                                          {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                          {"PMIX_RANK", "0"}};
  const Environment alone_under_torchrun = {{"RANK", "0"},
                                            {"WORLD_SIZE", "1"},
                                            {"LOCAL_RANK", "0"},
                                            {"LOCAL_WORLD_SIZE", "1"},
                                            {"MASTER_ADDR", "far.away"},
                                            {"MASTER_PORT", "29500"},
                                            {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  const Environment in_slurm_step = {
      {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"},
      {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NODELIST", "gpu7"}};
  const Environment with_choices = {
      {"PTDP_MEETING_PORT", "5000"}, {"PTDP_JOB_SECRET", "another"}, {"NPROC_PER_NODE", "8"}};
  for (const Environment& environment :
       {Environment(), alone_under_mpirun, alone_under_torchrun, in_slurm_step, with_choices}) {
    SCOPED_TRACE(environment.empty() ? "" : environment.begin()->first);
    const Environment started = started_within(environment);
    const Launcher launcher = detect_launcher(started);
    EXPECT_EQ(launcher.kind, LauncherKind::kTorchrun);
    EXPECT_EQ(launcher.name, "ptdp-run");
    EXPECT_EQ(launcher.rank, kRank);
    EXPECT_EQ(launcher.size, kSize);
    EXPECT_EQ(launcher.local_rank, kRank);
    EXPECT_TRUE(launcher.has_meeting);
    const MeetingPlace place = find_meeting_place(started, launcher);
    EXPECT_EQ(place.address, "127.0.0.1");
    EXPECT_EQ(place.port, kPort);
    EXPECT_EQ(place.secret, "a secret");
  }
}

}  // namespace
}  // namespace ptdp
