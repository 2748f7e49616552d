// Runs a built command as a process and keeps what it did.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ptdp {

/// What a standard stream of the process is connected to.
enum class Stream {
  kCaptured,
  kFull,         ///< /dev/full: every write fails.
  kClosed,       ///< No descriptor at all, as after `>&-`.
  kNobodyReads,  ///< A pipe whose reader has gone, as after `| head -0`.
};

/// A signal to send once `text` is on the process's standard error, `delay` later; "" is there at
/// once.
struct SignalOnText {
  std::string text;
  int signal = 0;
  std::chrono::milliseconds delay{0};
};

/// How to run a program.
struct RunOptions {
  /// Variables added to the inherited environment.
  std::map<std::string, std::string> environment = {};
  std::filesystem::path directory = ".";  ///< Directory in which the process runs.
  Stream standard_output = Stream::kCaptured;
  Stream standard_error = Stream::kCaptured;
  std::chrono::seconds deadline{60};  ///< Time after which the process is killed.
  /// Signals to send, in order; standard error must be captured.
  std::vector<SignalOnText> signals = {};
};

/// What a process did.
struct ProgramRun {
  std::string command;        ///< The command line as a shell would take it, for messages.
  std::string program;        ///< The file name of the program.
  bool is_timed_out = false;  ///< Whether the process was killed at the deadline.
  int status = -1;            ///< Exit status; 128 + signal if a signal ended the process.
  std::string output;
  std::string errors;
  double seconds_after_signal = 0.0;  ///< Time from the last of RunOptions::signals to the end [s].
  double cpu_seconds =
      0.0;  ///< User and system time [s]; other processes disturb it less than elapsed time.
  /// Most resident memory [B], at least that of this process at the start.
  std::int64_t peak_memory = 0;
};

/// Runs `program` and waits for its end or the deadline, whichever comes first. Its standard input
/// is empty, and SIGPIPE is as the system sets it. Throws std::system_error if the program cannot
/// be run.
[[nodiscard]] ProgramRun run_program(const std::filesystem::path& program,
                                     const std::vector<std::string>& arguments,
                                     const RunOptions& options = {});

}  // namespace ptdp
