#include "planner/logs/training_log.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "cost_model/error.h"
#include "planner/logs/log_lines.h"
#include "planner/logs/steady_state.h"

namespace ptdp {
namespace {

constexpr int kMostJoinedLines = 5;
constexpr double kLeastMemory = 1024.0 * 1024.0;  // less is no size of a GPU's memory in bytes
constexpr std::size_t kMostBars = 16;
constexpr std::size_t kMostOfArguments = std::size_t{1} << 20;
constexpr std::string_view kListBegins = " arguments --";
constexpr std::string_view kListEnds = "end of arguments --";
constexpr std::string_view kListItem = " ...";

using Records = std::vector<LogRecord>;

void append_bounded(Records& records, const LogRecord& record) {
  if (records.size() == 2 * kMostLogRecords) {
    records.erase(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(kMostLogRecords));
  }
  records.push_back(record);
}

/// Returns the time that a bar shows at its last record [s].
double elapsed_of(const Records& bar) {
  return bar.empty() ? 0.0 : bar.back().clock.value_or(0.0);
}

/// The progress bars of a run by their totals, the longest of each.
class Bars {
 public:
  void add(const LogRecord& record) {
    Records& bar = running_[record.total];
    if (!bar.empty() && record.step <= bar.back().step) {
      if (record.step == bar.back().step) {
        return;
      }
      keep(bar);
      bar.clear();
    }
    append_bounded(bar, record);
    if (running_.size() > kMostBars) {
      const auto shortest = std::min_element(
          running_.begin(), running_.end(),
          [](const auto& a, const auto& b) { return elapsed_of(a.second) < elapsed_of(b.second); });
      keep(shortest->second);
      running_.erase(shortest);
    }
  }

  /// Returns the records of the bar that ran longest; empty without bars.
  [[nodiscard]] const Records& longest() const {
    const Records* found = &longest_;
    for (const auto& [total, bar] : running_) {
      found = elapsed_of(bar) > elapsed_of(*found) ? &bar : found;
    }
    return *found;
  }

 private:
  void keep(Records& bar) {
    if (elapsed_of(bar) > elapsed_of(longest_)) {
      longest_ = std::move(bar);
    }
  }

  std::map<std::int64_t, Records> running_;
  Records longest_;
};

/// What one run of a log printed so far.
struct LoggedRun {
  std::array<Records, kLogFormatNames.size()> records;
  Bars bars;
  LogMemory memory;
  LoggedTimers timers;
  std::string arguments;
  bool has_whole_list = false;  ///< Whether the list of arguments came to its end.

  /// Returns the format of the run: the first that it has records of; nullopt without records.
  [[nodiscard]] std::optional<LogFormat> format() const {
    for (const auto& named : kLogFormatNames) {
      if (!records_of(named.value).empty()) {
        return named.value;
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] const Records& records_of(LogFormat format) const {
    return format == LogFormat::kProgressBar ? bars.longest()
                                             : records[static_cast<std::size_t>(format)];
  }
  /// Returns how many records a report would rest on.
  [[nodiscard]] std::size_t size() const {
    const auto found = format();
    return found ? records_of(*found).size() : 0;
  }
};

/// Reads lines, and puts together records that a terminal broke.
class LogReader {
 public:
  explicit LogReader(const std::filesystem::path& path) : lines_(path) {}

  TrainingLog read() {
    std::string line;
    while (take(line)) {
      note_arguments(line);
      if (may_hold_timers(line)) {
        run_.timers.add(line);
      }
      if (!may_hold_record(line)) {
        continue;
      }
      Records records = records_of(line);
      if (is_cut(line, records)) {
        if (!join(line)) {
          break;  // a live log, or one of a killed run, ends within a record
        }
        records = records_of(line);
      }
      note_memory(reported_memory(line));
      for (const LogRecord& record : records) {
        add(record);
      }
    }
    return result();
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
  /// ends the record, too. Returns false if the log ends before the record does.
  bool join(std::string& line) {
    for (int joined = 0; joined < kMostJoinedLines; ++joined) {
      do {
        if (!lines_.next(next_)) {
          return !lines_.ends_within_line();
        }
      } while (next_.empty());
      const Records others = records_of(next_);
      if (!others.empty() || is_cut(next_, others) || may_hold_timers(next_) ||
          reported_memory(next_).reserved > 0.0) {
        has_next_ = true;
        return true;
      }
      line += next_;
      if (!is_cut(line, records_of(line))) {
        return true;
      }
    }
    return true;
  }

  void note_arguments(const std::string& line) {
    if (has_word(line, kListEnds)) {
      run_.has_whole_list = true;
    } else if (has_word(line, kListBegins)) {
      if (run_.size() > 0) {
        begin_run();
      }
      run_.arguments.clear();
      run_.has_whole_list = false;
    } else if (!run_.has_whole_list && run_.arguments.size() < kMostOfArguments &&
               has_word(line, kListItem)) {
      run_.arguments += line + '\n';
    }
  }

  /// Begins another run, and keeps this one if it has a steady state, or more than the one kept.
  void begin_run() {
    ++restarts_;
    LoggedRun next;
    next.arguments = run_.arguments;
    next.has_whole_list = true;
    if (run_.size() >= kFewestLogRecords || run_.size() > before_.size()) {
      before_ = std::move(run_);
    }
    run_ = std::move(next);
  }

  void add(const LogRecord& record) {
    if (record.format == LogFormat::kProgressBar) {
      run_.bars.add(record);
    } else {
      add_step(record);
    }
    run_.has_whole_list = true;  // what follows in this form is another program's
    note_memory({record.allocated_bytes.value_or(0.0), record.reserved_bytes.value_or(0.0)});
  }

  /// Adds a record unless another rank has printed its iteration, or begins a run with it.
  void add_step(const LogRecord& record) {
    const auto format = static_cast<std::size_t>(record.format);
    const Records& known = run_.records[format];
    if (!known.empty() && record.step <= known.back().step) {
      // Ranks print an iteration one after another, some of them late.
      if (record.step == known.back().step ||
          (known.size() > 1 && record.step >= known[known.size() - 2].step)) {
        return;
      }
      begin_run();
    }
    append_bounded(run_.records[format], record);
  }

  void note_memory(const LogMemory& memory) {
    for (double LogMemory::*size : {&LogMemory::allocated, &LogMemory::reserved}) {
      if (memory.*size >= kLeastMemory) {
        run_.memory.*size = std::max(run_.memory.*size, memory.*size);
      }
    }
  }

  [[nodiscard]] TrainingLog result() const {
    const LoggedRun& run = run_.size() >= kFewestLogRecords || before_.size() == 0 ? run_ : before_;
    const auto format = run.format();
    if (!format) {
      return {};
    }
    return {.format = *format,
            .records = run.records_of(*format),
            .restarts = restarts_,
            .memory = run.memory,
            .timers = run.timers.medians(),
            .arguments = run.arguments};
  }

  LogLines lines_;
  std::string next_;
  bool has_next_ = false;
  LoggedRun run_;
  LoggedRun before_;
  std::int64_t restarts_ = 0;
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
