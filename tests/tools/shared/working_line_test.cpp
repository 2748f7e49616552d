// Tests of the line that a terminal shows while a command computes.
#include "tools/shared/working_line.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

namespace ptdp {
namespace {

constexpr std::chrono::milliseconds kOverASecond(1300);
constexpr int kUntilQuietMs = 300;

/// Returns what comes to the reading end while standard error is the writing one and a line is
/// shown for some time. Takes both ends.
std::string shown_meanwhile(int reading, int writing, std::chrono::milliseconds time) {
  const int kept = ::dup(STDERR_FILENO);
  ::dup2(writing, STDERR_FILENO);
  const int answer = while_working("ptdp-some", "counting\n", [&] {
    std::this_thread::sleep_for(time);
    return 42;
  });
  ::dup2(kept, STDERR_FILENO);
  EXPECT_EQ(answer, 42);
  // The kernel hands what is written to a terminal on piece by piece, some time later.
  std::string shown;
  std::array<char, 4096> buffer{};
  for (pollfd waiting{.fd = reading, .events = POLLIN}; ::poll(&waiting, 1, kUntilQuietMs) > 0;) {
    const ::ssize_t size = ::read(reading, buffer.data(), buffer.size());
    if (size <= 0) {
      break;
    }
    shown.append(buffer.data(), static_cast<std::size_t>(size));
  }
  for (const int descriptor : {reading, writing, kept}) {
    ::close(descriptor);
  }
  return shown;
}

/// Returns what a terminal gets to see.
std::string shown_on_terminal(std::chrono::milliseconds time) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  ::grantpt(master);
  ::unlockpt(master);
  const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);  // NOLINT
  return shown_meanwhile(master, terminal, time);
}

TEST(WorkingLine, SaysWhatIsDoneAfterASecondAndIsErased) {
  const std::string shown = shown_on_terminal(kOverASecond);
  EXPECT_THAT(shown, testing::StartsWith("\r\x1b[Kptdp-some: counting"));
  EXPECT_THAT(shown, testing::EndsWith(", 1 s\r\x1b[K"));
}

TEST(WorkingLine, IsNotShownForWhatIsSoonDone) {
  EXPECT_EQ(shown_on_terminal(std::chrono::milliseconds(0)), "");
}

TEST(WorkingLine, IsShownOnATerminalOnly) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  EXPECT_EQ(shown_meanwhile(pipe[0], pipe[1], kOverASecond), "");
}

}  // namespace
}  // namespace ptdp
