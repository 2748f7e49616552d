// Runs a built command as a process of its own and keeps what it did.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ptdp {

/// What a standard stream of the process is.
enum class Stream {
  kCaptured,
  kFull,         ///< /dev/full: every write fails.
  kClosed,       ///< No descriptor at all, as after `>&-`.
  kNobodyReads,  ///< A pipe whose reader has gone, as after `| head -0`.
};

/// A signal to the process, so long after a text was on its standard error; "" is there at once.
struct SignalOnText {
  std::string text;
  int signal = 0;
  std::chrono::milliseconds delay{0};
};

struct RunOptions {
  std::map<std::string, std::string> environment = {};  ///< On top of the inherited one.
  std::filesystem::path directory = ".";                ///< Where the process runs.
  Stream standard_output = Stream::kCaptured;
  Stream standard_error = Stream::kCaptured;
  std::chrono::seconds deadline{60};       ///< After which the process is killed.
  std::vector<SignalOnText> signals = {};  ///< In order; with standard error captured.
};

/// What a process did.
struct ProgramRun {
  std::string command;        ///< As a shell would take it, for messages.
  std::string program;        ///< The file name of the program.
  bool is_timed_out = false;  ///< Killed at the deadline.
  int status = -1;            ///< Exit status; 128 + signal if a signal ended the process.
  std::string output;
  std::string errors;
  double seconds_after_signal = 0.0;  ///< From the last of RunOptions::signals to the end.
  double cpu_seconds =
      0.0;  ///< User and system; other processes do not disturb it as they do time.
  std::int64_t peak_memory = 0;  ///< Bytes resident, at least those of this process at the start.
};

/// Runs `program` with its standard input empty and SIGPIPE as the system sets it, and waits for
/// its end or the deadline, whichever comes first. Throws std::system_error if it cannot be run.
[[nodiscard]] ProgramRun run_program(const std::filesystem::path& program,
                                     const std::vector<std::string>& arguments,
                                     const RunOptions& options = {});

}  // namespace ptdp
