// How processes are to meet, by what started them, what was asked and what the program has.
#include "tools/launched_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/error.h"

namespace ptdp {
namespace {

using ::testing::HasSubstr;

constexpr std::optional<Transport> kUnasked;

Launcher started_by(LauncherKind kind, int size, bool has_meeting) {
  return {.kind = kind, .name = "launcher", .size = size, .has_meeting = has_meeting};
}

TEST(ChooseTransport, FollowsTheLauncher) {
  struct Row {
    const char* what;
    LauncherKind kind;
    int size;
    bool has_meeting;
    bool has_mpi;
    Transport transport;
  };
  const std::vector<Row> rows = {
      {"nobody", LauncherKind::kNone, 1, false, true, Transport::kThreads},
      {"mpirun", LauncherKind::kMpi, 4, false, true, Transport::kMpi},
      {"mpirun of one", LauncherKind::kMpi, 1, false, true, Transport::kMpi},
      {"mpirun that passes MASTER_ADDR on", LauncherKind::kMpi, 4, true, true, Transport::kMpi},
      {"mpirun, no MPI here", LauncherKind::kMpi, 4, true, false, Transport::kTcp},
      {"mpirun of one, no MPI here", LauncherKind::kMpi, 1, false, false, Transport::kThreads},
      {"srun without a PMI", LauncherKind::kSlurm, 4, true, true, Transport::kTcp},
      {"srun of one", LauncherKind::kSlurm, 1, true, true, Transport::kThreads},
      {"torchrun", LauncherKind::kTorchrun, 4, true, true, Transport::kTcp},
      {"torchrun, no MPI here", LauncherKind::kTorchrun, 4, true, false, Transport::kTcp},
      {"torchrun of one", LauncherKind::kTorchrun, 1, true, true, Transport::kThreads}};
  for (const Row& row : rows) {
    EXPECT_EQ(
        choose_transport(started_by(row.kind, row.size, row.has_meeting), kUnasked, row.has_mpi),
        row.transport)
        << row.what;
  }
}

TEST(ChooseTransport, DoesWhatIsAsked) {
  const Launcher mpirun = started_by(LauncherKind::kMpi, 4, true);
  EXPECT_EQ(choose_transport(mpirun, Transport::kTcp, true), Transport::kTcp);
  const Launcher torchrun = started_by(LauncherKind::kTorchrun, 4, true);
  EXPECT_EQ(choose_transport(torchrun, Transport::kMpi, true), Transport::kMpi);
  EXPECT_EQ(choose_transport({}, Transport::kTcp, true), Transport::kTcp);
}

std::string fault_of(const Launcher& launcher, std::optional<Transport> asked, bool has_mpi) {
  try {
    static_cast<void>(choose_transport(launcher, asked, has_mpi));
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::kBadInput);
    return error.what();
  }
  return "nothing thrown";
}

TEST(ChooseTransport, RefusesProcessesThatCannotMeet) {
  const Launcher mpirun = started_by(LauncherKind::kMpi, 4, false);
  EXPECT_THAT(fault_of(mpirun, kUnasked, false),
              HasSubstr("launcher started several processes: this program was built without MPI, "
                        "and without MASTER_ADDR and MASTER_PORT"));
  EXPECT_THAT(fault_of(mpirun, Transport::kMpi, false), HasSubstr("--transport mpi: "));
  EXPECT_THAT(fault_of(mpirun, Transport::kThreads, true), HasSubstr("launcher started 4"));
}

TEST(TransportFlag, IsTheWayToMeetAmongTheArguments) {
  const auto flag = [](const char* first, const char* second) {
    const std::array arguments = {"ptdp-run", "plan.json", first, second};
    return transport_flag(static_cast<int>(arguments.size()), arguments.data());
  };
  EXPECT_EQ(flag("--transport", "tcp"), Transport::kTcp);
  EXPECT_EQ(flag("--quiet", "--transport=mpi"), Transport::kMpi);
  EXPECT_EQ(flag("--transport", "threads"), Transport::kThreads);
  EXPECT_EQ(flag("--transport", "nccl"), kUnasked);  // how tensors travel
  EXPECT_EQ(flag("--transport", "pigeon"), kUnasked);
  EXPECT_EQ(flag("--steps", "2"), kUnasked);
}

TEST(DeadlineFlag, BoundsTheStartBeforeTheCommandLineIsRead) {
  const auto flag = [](const char* first, const char* second) {
    const std::array arguments = {"ptdp-run", "plan.json", first, second};
    return phase_deadline(deadline_flag(static_cast<int>(arguments.size()), arguments.data()));
  };
  EXPECT_EQ(flag("--deadline", "20"), Seconds(20.0));
  EXPECT_EQ(flag("--quiet", "--deadline=20"), Seconds(20.0));
  EXPECT_EQ(flag("--deadline", "off"), std::nullopt);
  EXPECT_EQ(flag("--deadline", "soon"), Seconds(300.0));
  EXPECT_EQ(flag("--deadlines", "20"), Seconds(300.0));
}

}  // namespace
}  // namespace ptdp
