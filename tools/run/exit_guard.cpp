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

/// Runs in the second process, which has only this thread, and never returns. The system closes the
/// pipe's other end when the guarded process ends. Other descriptors are closed first, because the
/// guarded process's connections and locks must not outlive it.
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
  // The guarded process may have started another that keeps the pipe open, and its number may be
  // reused.
  if (ready == 0 && ::getppid() == guarded) {
    [[maybe_unused]] const ::ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    ::kill(guarded, SIGUSR2);
    ::kill(guarded, SIGCONT);  // a stopped process takes the first signal then
  }
  ::_exit(0);
}

}  // namespace

void guard_exit(std::optional<Seconds> limit, const std::string& line) {
  std::array<int, 2> ends{};
  if (!limit || ::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return;
  }
  constexpr double longest = 1e6;  // [s]; poll(2) can count that many milliseconds
  const auto milliseconds = static_cast<int>(1e3 * std::min(limit->value(), longest));
  std::signal(SIGUSR2, leave_with_fault);
  const pid_t guarded = ::getpid();
  if (::fork() == 0) {
    std::signal(SIGINT, SIG_IGN);  // as the guarded process, which ends this one
    std::signal(SIGTERM, SIG_IGN);
    wait_for_end(guarded, ends[0], milliseconds, line);
  }
  ::close(ends[0]);  // the other end closes with this process
}

}  // namespace ptdp
