// Tests the guard of a process that is stopped on its way out, and of one that is not.
#include "tools/run/exit_guard.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

namespace ptdp {
namespace {

/// Returns the exit status of a process that calls `body` and exits with 0.
template <class Body>
int status_of_process(const Body& body) {
  const pid_t process = ::fork();
  if (process == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ExitGuard, EndsAProcessThatIsStopped) {
  EXPECT_EQ(status_of_process([] {
              guard_exit(Seconds(0.2), "stopped\n");
              std::raise(SIGSTOP);
            }),
            4);
}

TEST(ExitGuard, LeavesAProcessThatEndsAlone) {
  EXPECT_EQ(status_of_process([] { guard_exit(Seconds(60.0), "stopped\n"); }), 0);
  EXPECT_EQ(status_of_process([] { guard_exit(std::nullopt, "stopped\n"); }), 0);
}

/// Returns the number of descriptors of a program that the process starts after it called `body`.
template <class Body>
int descriptors_of_started_program(const Body& body) {
  return status_of_process([&] {
    body();
    // Looked up by the shell itself: processes that it starts would have pipes of their own.
    std::array<std::string, 3> words = {"sh", "-c", "set -- /proc/self/fd/*; exit $#"};
    const std::array<char*, 4> arguments = {words[0].data(), words[1].data(), words[2].data(),
                                            nullptr};
    ::execv("/bin/sh", arguments.data());
  });
}

// An inherited pipe would keep the guard waiting, which ends with its process.
TEST(ExitGuard, LeavesNothingToProgramsThatTheProcessStarts) {
  const int usual = descriptors_of_started_program([] {});
  EXPECT_GT(usual, 2);
  EXPECT_EQ(descriptors_of_started_program([] { guard_exit(Seconds(60.0), "stopped\n"); }), usual);
}

// A process that it started keeps the guard's pipe open for longer than the limit.
TEST(ExitGuard, SaysNothingOfAProcessThatHasEnded) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  EXPECT_EQ(status_of_process([&] {
              ::dup2(ends[1], STDERR_FILENO);
              guard_exit(Seconds(0.1), "stopped\n");
              if (::fork() == 0) {
                ::usleep(400'000);
              }
            }),
            0);
  ::close(ends[1]);
  std::array<char, 16> text{};
  EXPECT_EQ(::read(ends[0], text.data(), text.size()), 0) << text.data();
  ::close(ends[0]);
}

}  // namespace
}  // namespace ptdp
