// The lines of progress in a training program's log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "planner/logs/log_record.h"
#include "planner/logs/log_records.h"
#include "planner/logs/log_timers.h"

namespace ptdp {

/// The most lines of progress that are kept: of a longer log the last ones.
inline constexpr std::size_t kMostLogRecords = 100'000;

/// What a log holds: the records of one run, in order of their iterations.
struct TrainingLog {
  LogFormat format = LogFormat::kMegatron;
  /// Records of the last run in the log; where that has too few for a steady state, of the run
  /// before. Ranks that print the same iteration count once.
  std::vector<LogRecord> records;
  std::int64_t restarts = 0;     ///< How often the iterations fall back.
  LogMemory memory;              ///< The most that any GPU is said to use.
  std::vector<LogTimer> timers;  ///< Megatron's timers of that run, the median of each.
};

/// Reads a log in memory that does not grow with the file. Throws Error for a file that cannot be
/// read, or that has no line of progress.
[[nodiscard]] TrainingLog read_training_log(const std::filesystem::path& path);

}  // namespace ptdp
