#include "planner/logs/training_log.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "cost_model/error.h"
#include "planner/logs/log_lines.h"
#include "planner/logs/steady_state.h"

namespace ptdp {
namespace {

constexpr int kMostJoinedLines = 5;
constexpr double kLeastMemory = 1024.0 * 1024.0;  // less is no size of a GPU's memory in bytes

/// The runs of one format in a log: the one that is being read, and the last whole one before.
class LoggedRuns {
 public:
  void add(const LogRecord& record) {
    if (!run_.empty() && record.step <= run_.back().step) {
      // Ranks print an iteration one after another, some of them late.
      const bool is_of_another_rank =
          record.step == run_.back().step ||
          (run_.size() > 1 && record.step >= run_[run_.size() - 2].step);
      if (is_of_another_rank) {
        return;
      }
      ++restarts_;
      if (run_.size() >= kFewestLogRecords || run_.size() > before_.size()) {
        before_ = std::move(run_);
      }
      run_.clear();
    }
    if (run_.size() == 2 * kMostLogRecords) {
      run_.erase(run_.begin(), run_.begin() + static_cast<std::ptrdiff_t>(kMostLogRecords));
    }
    run_.push_back(record);
  }

  [[nodiscard]] bool empty() const { return run_.empty(); }
  [[nodiscard]] std::int64_t restarts() const { return restarts_; }
  /// Takes the records of the last run, or of the one before if the last has too few.
  [[nodiscard]] std::vector<LogRecord> take() {
    return std::move(run_.size() >= kFewestLogRecords || before_.empty() ? run_ : before_);
  }

 private:
  std::vector<LogRecord> run_;
  std::vector<LogRecord> before_;
  std::int64_t restarts_ = 0;
};

/// Reads lines, and puts together records that a terminal broke.
class LogReader {
 public:
  explicit LogReader(const std::filesystem::path& path) : lines_(path) {}

  TrainingLog read() {
    std::string line;
    while (take(line)) {
      if (may_hold_timers(line)) {
        timers_.add(line);
      }
      if (!may_hold_record(line)) {
        continue;
      }
      if (is_cut(line)) {
        join(line);
      }
      note_memory(reported_memory(line));
      for (const LogRecord& record : records_of(line)) {
        note_memory({record.allocated_bytes.value_or(0.0), record.reserved_bytes.value_or(0.0)});
        LoggedRuns& runs = runs_[static_cast<std::size_t>(record.format)];
        const std::int64_t restarts = runs.restarts();
        runs.add(record);
        if (runs.restarts() > restarts) {
          timers_.clear();
        }
      }
    }
    for (const auto& named : kLogFormatNames) {
      LoggedRuns& runs = runs_[static_cast<std::size_t>(named.value)];
      if (!runs.empty()) {
        log_.format = named.value;
        log_.restarts = runs.restarts();
        log_.records = runs.take();
        break;
      }
    }
    log_.timers = timers_.medians();
    return std::move(log_);
  }

 private:
  bool take(std::string& line) {
    if (has_next_) {
      std::swap(line, next_);
      has_next_ = false;
      return true;
    }
    return lines_.next(line);
  }

  /// Appends the following lines up to the record's last bar. A line that begins something else
  /// ends the record, too.
  void join(std::string& line) {
    for (int joined = 0; joined < kMostJoinedLines; ++joined) {
      if (!lines_.next(next_)) {
        return;
      }
      if (!records_of(next_).empty() || is_cut(next_) || reported_memory(next_).reserved > 0.0 ||
          next_.find("time (ms)") != std::string::npos) {
        has_next_ = true;
        return;
      }
      line += next_;
      if (!is_cut(line)) {
        return;
      }
    }
  }

  void note_memory(const LogMemory& memory) {
    for (double LogMemory::*size : {&LogMemory::allocated, &LogMemory::reserved}) {
      if (memory.*size >= kLeastMemory) {
        log_.memory.*size = std::max(log_.memory.*size, memory.*size);
      }
    }
  }

  LogLines lines_;
  std::string next_;
  bool has_next_ = false;
  std::array<LoggedRuns, kLogFormatNames.size()> runs_;
  LoggedTimers timers_;
  TrainingLog log_;
};

}  // namespace

TrainingLog read_training_log(const std::filesystem::path& path) {
  TrainingLog log = LogReader(path).read();
  if (log.records.empty()) {
    throw Error(path.string() +
                ": no line of progress: expected the log of Megatron-LM, Megatron-Bridge, "
                "Megatron-DeepSpeed, torchtitan, nanotron, NeMo, DeepSpeed or a progress bar");
  }
  return log;
}

}  // namespace ptdp
