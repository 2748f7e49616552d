// Tests how a stopped rank is found among the processes that one process started.
#include "tools/run/stopped_ranks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace ptdp {
namespace {

/// Starts a process that sleeps, with this variable and no other, and returns its number.
pid_t started_with(const char* variable) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t process = ::fork();
  if (process == 0) {
    const std::array<const char*, 2> environment = {variable, nullptr};
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): execle(3) is what it is
    ::execle("/bin/sleep", "sleep", "60", nullptr, environment.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);  // closed when it is another program
  ::close(ends[0]);
  return process;
}

/// Returns the rank that a process beside them finds, or 99.
int found_beside() {
  const pid_t process = ::fork();
  if (process == 0) {
    ::_exit(find_stopped_rank().value_or(StoppedRank{.rank = 99}).rank);
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  return WEXITSTATUS(status);
}

TEST(StoppedRank, IsFoundBesideThisProcess) {
  const std::array<pid_t, 3> processes = {started_with("OMPI_COMM_WORLD_RANK=1"),
                                          started_with("OMPI_COMM_WORLD_RANK=2"),
                                          started_with("HOME=/")};
  EXPECT_EQ(found_beside(), 99);
  for (const pid_t process : {processes[1], processes[2]}) {
    ::kill(process, SIGSTOP);
    int status = 0;
    ::waitpid(process, &status, WUNTRACED);
  }
  EXPECT_EQ(found_beside(), 2);
  for (const pid_t process : processes) {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
}

}  // namespace
}  // namespace ptdp
