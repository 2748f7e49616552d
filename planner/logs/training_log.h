// The runs in a training program's log, and what the last of them printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "planner/logs/log_record.h"
#include "planner/logs/log_records.h"
#include "planner/logs/log_timers.h"

namespace ptdp {

/// The most lines of progress that are kept: of a longer log the last ones.
inline constexpr std::size_t kMostLogRecords = 100'000;

/// What one run printed: the last run in a log, or the one before if the last has too few lines of
/// progress for a steady state. A list of arguments begins a run, and so do iterations that fall
/// back.
struct TrainingLog {
  LogFormat format = LogFormat::kMegatron;
  /// Records in order of their iterations. Ranks that print the same iteration count once. Of
  /// several progress bars it is the one that ran longest.
  std::vector<LogRecord> records;
  std::int64_t restarts = 0;     ///< How many runs the log has besides.
  LogMemory memory;              ///< The most that any GPU is said to use.
  std::vector<LogTimer> timers;  ///< Megatron's timers, the median of each.
  std::string arguments;         ///< The list of arguments that Megatron-LM prints; "" without one.
};

/// Reads a log in memory that does not grow with the file. Throws Error for a file that cannot be
/// read, or that has no line of progress.
[[nodiscard]] TrainingLog read_training_log(const std::filesystem::path& path);

}  // namespace ptdp
