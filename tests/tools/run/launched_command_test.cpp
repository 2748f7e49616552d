// Tests how processes are to meet, depending on the launcher, the flag and the build.
#include "tools/run/launched_command.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "runtime/transport/processes/tcp/socket.h"
#include "tools/run/prepare_together.h"

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

/// A process of two over TCP that runs this command.
class Peer {
 public:
  Peer(int rank, int port, const std::function<int(JobProcess*)>& command) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[1], STDERR_FILENO);
      ::clearenv();
      ::setenv("RANK", std::to_string(rank).c_str(), 1);
      ::setenv("WORLD_SIZE", "2", 1);
      ::setenv("MASTER_ADDR", "127.0.0.1", 1);
      ::setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
      const std::array arguments = {"test", "--deadline", "20"};
      ::_exit(run_launched_command("test", static_cast<int>(arguments.size()), arguments.data(),
                                   command));
    }
    ::close(ends[1]);
    errors_ = ends[0];
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  Peer(Peer&&) = delete;
  Peer& operator=(Peer&&) = delete;
  ~Peer() {
    ::close(errors_);
    ::waitpid(process_, nullptr, 0);
  }

  /// Returns all that the process says of faults, once it has ended.
  [[nodiscard]] std::string errors() const {
    std::string all;
    std::array<char, 256> part{};
    for (ssize_t size = 0; (size = ::read(errors_, part.data(), part.size())) > 0;) {
      all.append(part.data(), static_cast<std::size_t>(size));
    }
    return all;
  }

 private:
  pid_t process_ = 0;
  int errors_ = -1;
};

int be_killed() {
  ::usleep(100'000);  // the other waits by then
  return std::raise(SIGKILL);
}

TEST(LaunchedCommand, SaysWhoDiedAtTheEnd) {
  const int port = listen_on(0).port;
  const Peer zero(0, port, [](JobProcess*) { return be_killed(); });
  const Peer one(1, port, [](JobProcess*) { return 0; });
  EXPECT_EQ(one.errors(), "test: the end: rank 0 on host " + own_host_name() +
                              ": its process has ended without a word\n");
}

TEST(LaunchedCommand, SaysWhoDiedAtTheStart) {
  const int port = listen_on(0).port;
  const Peer zero(0, port, [](JobProcess* process) {
    prepare_together(process, std::nullopt, [] { return std::vector<SharedInput>(); });
    return 0;
  });
  const Peer one(1, port, [](JobProcess*) { return be_killed(); });
  EXPECT_EQ(zero.errors(), "test: the start: rank 1 on host " + own_host_name() +
                               ": its process has ended without a word\n");
}

/// Runs two processes of one job that differ in one input, if any. Returns what each says of it.
std::array<std::string, 2> errors_of_differing(std::optional<std::size_t> differing) {
  const int port = listen_on(0).port;
  const auto prepare = [&](JobProcess* process) {
    prepare_together(process, std::nullopt, [&] {
      std::vector<SharedInput> inputs = {
          {"the command line", "a"}, {"--data", ""}, {"--orders", "0F0,0B0"}};
      if (differing && process->rank() == 1) {
        inputs[*differing].content += " ";
      }
      return inputs;
    });
    return 0;
  };
  const Peer zero(0, port, prepare);
  const Peer one(1, port, prepare);
  return {zero.errors(), one.errors()};
}

TEST(LaunchedCommand, RefusesWhicheverInputIsAnotherOnSomeRank) {
  const std::array<std::string, 3> names = {"the command line", "--data", "--orders"};
  for (std::size_t input = 0; input < names.size(); ++input) {
    const std::string host = own_host_name();
    const std::array<std::string, 2> errors = errors_of_differing(input);
    std::string expected = "test: rank 1 on host ";
    expected.append(host).append(": expected ").append(names[input]);
    expected.append(" to be that of rank 0 on host ").append(host).append(", got another\n");
    EXPECT_EQ(errors[0], expected);
    EXPECT_EQ(errors[1], "");
  }
  EXPECT_EQ(errors_of_differing(std::nullopt), (std::array<std::string, 2>{}));
}

}  // namespace
}  // namespace ptdp
