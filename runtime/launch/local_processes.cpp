#include "runtime/launch/local_processes.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "runtime/transport/processes/tcp/socket.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostLocalProcesses = 1024;
constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP, SIGCONT};
constexpr int kSignalStatus = 128;
constexpr const char* kLoopback = "127.0.0.1";

// What the signal handler needs.
std::array<std::atomic<pid_t>, kMostLocalProcesses> processes;
std::atomic<std::size_t> num_processes = 0;

void pass_on(int signal) {
  const int error = errno;
  for (std::size_t i = 0; i < num_processes; ++i) {
    if (const pid_t process = processes[i]; process > 0) {
      static_cast<void>(::kill(process, signal == SIGTSTP ? SIGSTOP : signal));
    }
  }
  if (signal == SIGTSTP) {  // A terminal's stop reaches this process alone.
    static_cast<void>(::raise(SIGSTOP));
  }
  errno = error;
}

/// Holds signals back while it lives, so that none comes before all processes are there.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t held;
    ::sigemptyset(&held);
    for (const int signal : kPassedOn) {
      ::sigaddset(&held, signal);
    }
    static_cast<void>(::sigprocmask(SIG_BLOCK, &held, &before_));
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  HeldSignals(HeldSignals&&) = delete;
  HeldSignals& operator=(HeldSignals&&) = delete;
  ~HeldSignals() { static_cast<void>(::sigprocmask(SIG_SETMASK, &before_, nullptr)); }

  /// Returns what was held back before.
  [[nodiscard]] const sigset_t& before() const { return before_; }

 private:
  sigset_t before_ = {};
};

/// Passes signals on to the processes while it lives.
class PassedSignals {
 public:
  PassedSignals() {
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
      before_[i] = std::signal(kPassedOn[i], pass_on);
      if (kPassedOn[i] == SIGHUP && before_[i] == SIG_IGN) {  // under nohup
        std::signal(kPassedOn[i], SIG_IGN);
      }
    }
  }
  PassedSignals(const PassedSignals&) = delete;
  PassedSignals& operator=(const PassedSignals&) = delete;
  PassedSignals(PassedSignals&&) = delete;
  PassedSignals& operator=(PassedSignals&&) = delete;
  ~PassedSignals() {
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
      std::signal(kPassedOn[i], before_[i]);
    }
  }

 private:
  std::array<void (*)(int), kPassedOn.size()> before_{};
};

std::string new_secret() {
  std::random_device device;
  std::string secret;
  for (int word = 0; word < 4; ++word) {
    secret += fmt::format("{:08x}", device());
  }
  return secret;
}

/// Turns the child of fork() into a process of the job. A terminal's interrupt reaches its parent
/// alone, which passes it on.
[[noreturn]] void become_process(pid_t parent, const sigset_t& mask, const std::string& program,
                                 const char* const* argv, const std::vector<char*>& environment) {
  static_cast<void>(::setpgid(0, 0));
  static_cast<void>(::prctl(PR_SET_PDEATHSIG, SIGKILL));  // NOLINT: prctl(2) is what it is
  if (::getppid() == parent) {
    // execve(2) keeps what is ignored and blocked, and no handler.
    for (const int signal : kPassedOn) {
      if (std::signal(signal, SIG_DFL) == SIG_IGN) {
        std::signal(signal, SIG_IGN);
      }
    }
    static_cast<void>(::sigprocmask(SIG_SETMASK, &mask, nullptr));
    // execve(2) changes nothing that the pointers lead to.
    ::execve(program.c_str(), const_cast<char* const*>(argv),  // NOLINT
             environment.data());
  }
  for (const std::string_view text :
       {std::string_view(program_invocation_short_name),
        std::string_view(": a rank's process could not be started\n")}) {
    static_cast<void>(::write(STDERR_FILENO, text.data(), text.size()));
  }
  ::_exit(static_cast<int>(ExitStatus::kRuntimeFault));
}

/// Starts a process with this environment and returns its number.
pid_t start_process(const char* const* argv, const Environment& environment, const sigset_t& mask) {
  std::vector<std::string> texts;
  texts.reserve(environment.size());
  for (const auto& [name, value] : environment) {
    texts.push_back(fmt::format("{}={}", name, value));
  }
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  // The file's own path, since processes are named after what they were started as.
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process == 0) {
    become_process(parent, mask, program, argv, pointers);
  }
  return process;
}

/// Returns the exit status of process number `i`, or 128 plus the signal that ended it. Returns
/// nullopt while it runs.
std::optional<int> status_of_process(std::size_t i) {
  int status = 0;
  if (::waitpid(processes[i], &status, WNOHANG) == 0) {
    return std::nullopt;
  }
  processes[i] = 0;
  return WIFSIGNALED(status) ? kSignalStatus + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Ends processes that run on after one has failed: by SIGTERM after a while, for they report what
/// they know of it, and by SIGKILL after another.
class EndOfTheRest {
 public:
  void look() {
    const auto now = std::chrono::steady_clock::now();
    if (!next_) {
      next_ = now + kGrace;
    } else if (now >= *next_) {
      pass_on(signal_);
      signal_ = SIGKILL;
      next_ = now + kGrace;
    }
  }

 private:
  static constexpr std::chrono::seconds kGrace{10};
  std::optional<std::chrono::steady_clock::time_point> next_;
  int signal_ = SIGTERM;
};

/// Waits for all processes and returns the status of the first that did not end with 0.
int wait_for_processes() {
  constexpr std::chrono::milliseconds between_looks(20);
  int result = 0;
  std::size_t num_running = num_processes;
  EndOfTheRest end;
  while (num_running > 0) {
    for (std::size_t i = 0; i < num_processes; ++i) {
      const std::optional<int> status = processes[i] > 0 ? status_of_process(i) : std::nullopt;
      if (status) {
        --num_running;
        result = result == 0 ? *status : result;
      }
    }
    if (result != 0) {
      end.look();
    }
    std::this_thread::sleep_for(between_looks);
  }
  return result;
}

}  // namespace

Environment environment_of_process(const Environment& environment, int rank, int size,
                                   std::uint16_t port, const std::string& secret) {
  Environment result = environment;
  result["RANK"] = result["LOCAL_RANK"] = std::to_string(rank);
  result["WORLD_SIZE"] = result["LOCAL_WORLD_SIZE"] = std::to_string(size);
  result["MASTER_ADDR"] = kLoopback;
  result["MASTER_PORT"] = std::to_string(port);
  result["PTDP_JOB_SECRET"] = secret;
  result[kStarterVariable] = "ptdp-run";
  result.erase("PTDP_MEETING_PORT");
  result.erase("TORCHELASTIC_USE_AGENT_STORE");
  return result;
}

int run_local_processes(int size, const char* const* argv) {
  if (static_cast<std::size_t>(size) > kMostLocalProcesses) {
    throw Error(
        fmt::format("config: {} ranks are too many for the processes of one machine; "
                    "expected at most {}",
                    size, kMostLocalProcesses));
  }
  const Environment environment = environment_of_this_process();
  const std::string secret = new_secret();
  const std::uint16_t port = listen_on(0, kLoopback).port;  // Free again, for rank 0.
  num_processes = 0;
  const PassedSignals passed;
  std::optional<HeldSignals> held(std::in_place);
  for (int rank = 0; rank < size; ++rank) {
    const pid_t process = start_process(
        argv, environment_of_process(environment, rank, size, port, secret), held->before());
    if (process < 0) {
      const std::string reason = std::strerror(errno);  // NOLINT(concurrency-mt-unsafe)
      pass_on(SIGKILL);
      static_cast<void>(wait_for_processes());
      throw Error(fmt::format("rank {}: cannot start its process: {}", rank, reason),
                  ExitStatus::kRuntimeFault);
    }
    processes[static_cast<std::size_t>(rank)] = process;
    ++num_processes;
  }
  held.reset();
  return wait_for_processes();
}

}  // namespace ptdp
