#include "tests/support/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "cost_model/text/descriptor.h"

namespace ptdp {
namespace {

using Clock = std::chrono::steady_clock;

void check(int error, const char* what) {
  if (error != 0) {
    throw std::system_error(error, std::generic_category(), what);
  }
}

struct Pipe {
  Descriptor reader;
  Descriptor writer;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  check(::pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe2");
  return {.reader = Descriptor(ends[0]), .writer = Descriptor(ends[1])};
}

/// What the child process does between fork and exec.
class SpawnPlan {
 public:
  SpawnPlan() {
    check(::posix_spawn_file_actions_init(&actions_), "posix_spawn_file_actions_init");
    check(::posix_spawnattr_init(&attributes_), "posix_spawnattr_init");
    // A parent that ignores SIGPIPE, as Python does, would otherwise pass that on.
    sigset_t signals;
    ::sigemptyset(&signals);
    check(::posix_spawnattr_setsigmask(&attributes_, &signals), "posix_spawnattr_setsigmask");
    ::sigaddset(&signals, SIGPIPE);
    check(::posix_spawnattr_setsigdefault(&attributes_, &signals), "posix_spawnattr_setsigdefault");
    check(::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK),
          "posix_spawnattr_setflags");
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  SpawnPlan(SpawnPlan&&) = delete;
  SpawnPlan& operator=(SpawnPlan&&) = delete;
  ~SpawnPlan() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }

  void enter(const std::filesystem::path& directory) {
    check(::posix_spawn_file_actions_addchdir_np(&actions_, directory.c_str()), "chdir");
  }
  void open(int fd, const char* path, int flags) {
    check(::posix_spawn_file_actions_addopen(&actions_, fd, path, flags, 0), path);
  }
  /// Makes `fd` of the child what `stream` says; for a pipe, `pipe` holds its ends.
  void connect(int fd, Stream stream, Pipe& pipe) {
    switch (stream) {
      case Stream::kFull:
        open(fd, "/dev/full", O_WRONLY);
        break;
      case Stream::kClosed:
        check(::posix_spawn_file_actions_addclose(&actions_, fd), "close");
        break;
      case Stream::kCaptured:
      case Stream::kNobodyReads:
        pipe = make_pipe();
        check(::posix_spawn_file_actions_adddup2(&actions_, pipe.writer.get(), fd), "dup2");
        if (stream == Stream::kNobodyReads) {
          pipe.reader.close();
        }
        break;
    }
  }
  [[nodiscard]] pid_t spawn(const std::filesystem::path& program, std::vector<std::string> words,
                            std::vector<std::string> environment) const {
    pid_t child = -1;
    check(::posix_spawn(&child, program.c_str(), &actions_, &attributes_, pointers(words).data(),
                        pointers(environment).data()),
          program.c_str());
    return child;
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    result.reserve(texts.size() + 1);
    for (std::string& text : texts) {
      result.push_back(text.data());
    }
    result.push_back(nullptr);
    return result;
  }

  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> merged = changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) {
      merged.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  std::vector<std::string> result;
  result.reserve(merged.size());
  for (const auto& [name, value] : merged) {
    result.push_back(name);
    result.back().append(1, '=').append(value);
  }
  return result;
}

/// Appends what there is to read, and closes the descriptor at its end.
void drain(Descriptor& reader, std::string& text) {
  std::array<char, 65536> block{};
  const ssize_t count = ::read(reader.get(), block.data(), block.size());
  if (count > 0) {
    text.append(block.data(), static_cast<std::size_t>(count));
  } else if (count == 0 || errno != EINTR) {
    reader.close();
  }
}

/// Sends each signal once its text has come.
class SignalSender {
 public:
  SignalSender(pid_t child, const std::vector<SignalOnText>& signals)
      : child_(child), signals_(&signals) {}

  void look_at(const std::string& errors) {
    while (sent_ < signals_->size() && errors.find((*signals_)[sent_].text) != std::string::npos) {
      due_ = due_.value_or(Clock::now() + (*signals_)[sent_].delay);
      if (Clock::now() < *due_) {
        return;
      }
      ::kill(child_, (*signals_)[sent_].signal);
      time_ = Clock::now();
      due_.reset();
      ++sent_;
    }
  }
  /// Returns when to look again, whether or not there is more to read.
  [[nodiscard]] std::optional<Clock::time_point> due() const { return due_; }
  [[nodiscard]] double seconds_since() const {
    return sent_ == 0 ? 0.0 : std::chrono::duration<double>(Clock::now() - time_).count();
  }

 private:
  pid_t child_;
  const std::vector<SignalOnText>* signals_;
  std::size_t sent_ = 0;
  std::optional<Clock::time_point> due_;  // of the next signal
  Clock::time_point time_;
};

/// Reads both streams until both have ended; returns false if the deadline came first.
bool read_both(Descriptor& output, Descriptor& errors, Clock::time_point deadline,
               SignalSender& signals, ProgramRun& run) {
  while (output.get() >= 0 || errors.get() >= 0) {
    signals.look_at(run.errors);
    const auto now = Clock::now();
    if (now >= deadline) {
      return false;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
                          std::min(deadline, signals.due().value_or(deadline)) - now)
                          .count();
    // poll() passes over negative descriptors.
    std::array<pollfd, 2> polled = {pollfd{.fd = output.get(), .events = POLLIN, .revents = 0},
                                    pollfd{.fd = errors.get(), .events = POLLIN, .revents = 0}};
    ::poll(polled.data(), polled.size(), static_cast<int>(left));
    if (polled[0].revents != 0) {
      drain(output, run.output);
    }
    if (polled[1].revents != 0) {
      drain(errors, run.errors);
    }
  }
  return true;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// Waits for the child, and kills it at the deadline.
void wait_for(pid_t child, Clock::time_point deadline, ProgramRun& run) {
  rusage usage{};
  int state = 0;
  pid_t ended = 0;
  while (true) {
    ended = ::wait4(child, &state, run.is_timed_out ? 0 : WNOHANG, &usage);
    if (ended == child) {
      break;
    }
    if (ended < 0 && errno != EINTR) {
      check(errno, "wait4");
    }
    if (!run.is_timed_out && Clock::now() >= deadline) {
      run.is_timed_out = true;
      ::kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  run.status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  run.cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-union-access): the C library wraps each field in one
  run.peak_memory = std::int64_t{1024} * usage.ru_maxrss;
}

}  // namespace

ProgramRun run_program(const std::filesystem::path& program,
                       const std::vector<std::string>& arguments, const RunOptions& options) {
  ProgramRun run{.command = program.string(), .program = program.filename().string()};
  std::vector<std::string> words = {run.program};
  for (const std::string& argument : arguments) {
    words.push_back(argument);
    run.command += " '" + argument + "'";
  }

  Pipe output;
  Pipe errors;
  SpawnPlan plan;
  plan.enter(options.directory);
  plan.open(STDIN_FILENO, "/dev/null", O_RDONLY);
  plan.connect(STDOUT_FILENO, options.standard_output, output);
  plan.connect(STDERR_FILENO, options.standard_error, errors);
  const Clock::time_point deadline = Clock::now() + options.deadline;
  const pid_t child =
      plan.spawn(program, std::move(words), merged_environment(options.environment));
  output.writer.close();
  errors.writer.close();

  SignalSender signals(child, options.signals);
  run.is_timed_out = !read_both(output.reader, errors.reader, deadline, signals, run);
  if (run.is_timed_out) {
    ::kill(child, SIGKILL);
  }
  wait_for(child, deadline, run);
  run.seconds_after_signal = signals.seconds_since();
  return run;
}

}  // namespace ptdp
