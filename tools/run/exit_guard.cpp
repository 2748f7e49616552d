#include "tools/run/exit_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "cost_model/error.h"

namespace ptdp {
namespace {

void leave_with_fault(int /*signal*/) {
  ::_exit(static_cast<int>(ExitStatus::kRuntimeFault));
}

/// What the other process does, which has no threads but this one. The system closes the other end
/// of the pipe with the process that it guards; connections and locks of that are not to outlive
/// it.
[[noreturn]] void wait_for_end(pid_t guarded, int pipe_end, int milliseconds,
                               const std::string& line) {
  constexpr int kept = STDERR_FILENO + 1;
  ::dup2(pipe_end, kept);
  ::close_range(kept + 1, ~0U, 0);
  pollfd polled{.fd = kept, .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&polled, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  // A process that it started may keep the pipe open behind its end, and another get its number.
  if (ready == 0 && ::getppid() == guarded) {
    [[maybe_unused]] const ::ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    ::kill(guarded, SIGUSR2);
    ::kill(guarded, SIGCONT);  // what is stopped takes the first signal then
  }
  ::_exit(0);
}

}  // namespace

void guard_exit(std::optional<Seconds> limit, const std::string& line) {
  std::array<int, 2> ends{};
  if (!limit || ::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return;
  }
  constexpr double longest = 1e6;  // [s], of which poll(2) can count milliseconds
  const auto milliseconds = static_cast<int>(1e3 * std::min(limit->value(), longest));
  std::signal(SIGUSR2, leave_with_fault);
  const pid_t guarded = ::getpid();
  if (::fork() == 0) {
    std::signal(SIGINT, SIG_IGN);  // as the process that it guards, which ends it
    std::signal(SIGTERM, SIG_IGN);
    wait_for_end(guarded, ends[0], milliseconds, line);
  }
  ::close(ends[0]);  // the other is closed with the process
}

}  // namespace ptdp
