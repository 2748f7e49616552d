#include "planner/logs/steady_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/measured/quantile.h"

namespace ptdp {
namespace {

// Spans of time stamps [s]. A bar counts whole seconds, which is at most 2 % wrong over 50 of them;
// stamps of loggers have milliseconds.
constexpr double kSpanOfBars = 50.0;
constexpr double kSpanOfStamps = 0.5;
// No iteration takes less or more [s]: such numbers are misread or a fault of the program.
constexpr double kShortest = 1e-6;
constexpr double kLongest = 1e7;
constexpr double kSameBatch = 0.006;  // what nanotron prints has three digits
// Rates leave out what goes on between iterations, and are means of other spans than stamps are.
constexpr double kSameRate = 0.25;
constexpr const char* kStamps = "time stamps";

/// A line of progress with the time of its iterations.
struct TimedRecord {
  LogRecord record;
  double seconds = 0.0;
};

bool is_possible(double seconds) {
  return seconds >= kShortest && seconds <= kLongest;
}

/// Returns times between lines: of each line since the last one that is `span` seconds earlier, so
/// that the steps of the clock do not matter.
std::vector<TimedRecord> times_between(const std::vector<LogRecord>& records, double span) {
  std::vector<TimedRecord> times;
  const LogRecord* last = nullptr;
  for (const LogRecord& record : records) {
    if (!record.clock) {
      continue;
    }
    if (last == nullptr || *record.clock < *last->clock) {
      last = &record;
    } else if (*record.clock - *last->clock >= span && record.step > last->step) {
      const double seconds =
          (*record.clock - *last->clock) / static_cast<double>(record.step - last->step);
      if (is_possible(seconds)) {
        times.push_back({record, seconds});
      }
      last = &record;
    }
  }
  return times;
}

/// Returns the records that have `field`, each with `seconds_of` its value.
template <class SecondsOf>
std::vector<TimedRecord> times_by(const std::vector<LogRecord>& records,
                                  std::optional<double> LogRecord::*field, SecondsOf seconds_of) {
  std::vector<TimedRecord> times;
  for (const LogRecord& record : records) {
    const std::optional<double>& value = record.*field;
    const double seconds = value && *value > 0.0 ? seconds_of(*value) : 0.0;
    if (is_possible(seconds)) {
      times.push_back({record, seconds});
    }
  }
  return times;
}

/// Returns the times of the lines, by the best of what the log has; `source` names it unless the
/// log prints times.
std::vector<TimedRecord> times_of(const TrainingLog& log, const std::optional<LoggedJob>& job,
                                  std::string& source) {
  const auto take = [&](std::vector<TimedRecord> times, const char* name) {
    source = name;
    return times;
  };
  auto printed = times_by(log.records, &LogRecord::seconds, [](double seconds) { return seconds; });
  if (!printed.empty()) {
    return take(std::move(printed), "");
  }
  if (job) {
    auto by_tokens = times_by(log.records, &LogRecord::tokens_per_gpu_second,
                              [&](double rate) { return job->tokens_per_gpu / rate; });
    if (!by_tokens.empty()) {
      return take(std::move(by_tokens), "tokens per second");
    }
  }
  const double span = log.format == LogFormat::kProgressBar ? kSpanOfBars : kSpanOfStamps;
  auto by_clock = times_between(log.records, span);
  if (by_clock.size() >= kFewestLogRecords) {
    return take(std::move(by_clock), kStamps);
  }
  if (job) {
    auto by_samples = times_by(log.records, &LogRecord::samples_per_second,
                               [&](double rate) { return job->sequences / rate; });
    if (!by_samples.empty()) {
      return take(std::move(by_samples), "sequences per second");
    }
  }
  return take(std::move(by_clock), kStamps);
}

/// Throws Error at `place` unless the log's batch is the job's: in sequences, for nanotron in
/// tokens, of which it prints three digits.
void check_logged_batch(const LogRecord& record, const LoggedJob& job, const std::string& place) {
  const double batch = *record.batch;
  const bool is_rounded = record.format == LogFormat::kNanotron;
  const auto is_near = [&](double other) { return std::abs(batch / other - 1.0) <= kSameBatch; };
  if (is_rounded ? !is_near(job.sequences) && !is_near(job.tokens) : batch != job.sequences) {
    throw Error(
        fmt::format("{}: iteration {}: global batch size: found {:.10g}, expected the {:.10g} "
                    "of the plan",
                    place, record.step, batch, job.sequences));
  }
}

std::vector<double> seconds_of(const std::vector<TimedRecord>& times) {
  std::vector<double> seconds;
  seconds.reserve(times.size());
  for (const TimedRecord& time : times) {
    seconds.push_back(time.seconds);
  }
  return seconds;
}

/// Throws Error at `place` where a rate that the log prints beside times contradicts the job.
void check_rates(const TrainingLog& log, const std::vector<TimedRecord>& times,
                 const std::string& source, const LoggedJob& job, const std::string& place) {
  const auto check_rate = [&](std::optional<double> LogRecord::*rate, double amount,
                              std::string_view unit) {
    std::vector<double> amounts;
    for (const TimedRecord& time : times) {
      const std::optional<double>& value = time.record.*rate;
      if (value && *value > 0.0) {
        amounts.push_back(*value * time.seconds);
      }
    }
    if (!amounts.empty() && std::abs(median(amounts) / amount - 1.0) > kSameRate) {
      throw Error(
          fmt::format("{}: {} in the time of an iteration: found {:.4g}, expected the {:.4g} "
                      "of the plan",
                      place, unit, median(amounts), amount));
    }
  };
  if (source.empty() || source == kStamps) {
    check_rate(&LogRecord::tokens_per_gpu_second, job.tokens_per_gpu, "tokens of a GPU");
    check_rate(&LogRecord::samples_per_second, job.sequences, "sequences");
    return;
  }
  const std::vector<TimedRecord> by_clock = times_between(log.records, kSpanOfStamps);
  if (by_clock.size() < kFewestLogRecords) {
    return;
  }
  const double stamps = median(seconds_of(by_clock));
  const double rates = median(seconds_of(times));
  if (std::abs(rates / stamps - 1.0) > kSameRate) {
    throw Error(
        fmt::format("{}: an iteration: found {:.4g} s by the time stamps, expected the "
                    "{:.4g} s that the plan's batch takes by its {}",
                    place, stamps, rates, source));
  }
}

/// Returns how many lines at the start are slower than the rest, the first one included.
std::size_t warm_up_of(const std::vector<TimedRecord>& times) {
  const std::vector<double> seconds = seconds_of(times);
  const double usual = median({seconds.begin() + std::ssize(seconds) / 2, seconds.end()});
  std::size_t count = 1;
  while (count < times.size() / 2 && times[count].seconds > kWarmUp * usual) {
    ++count;
  }
  return count;
}

/// Leaves the lines of the last batch that is printed. Lines without one are of any.
void leave_out_other_batches(std::vector<TimedRecord>& times) {
  std::optional<double> batch;
  for (const TimedRecord& time : times) {
    batch = time.record.batch ? time.record.batch : batch;
  }
  std::erase_if(times, [&](const TimedRecord& time) {
    return time.record.batch && time.record.batch != batch;
  });
}

/// Returns how many of the iterations of a line were skipped, those since line `before`.
std::int64_t skipped_of(const LogRecord& record, std::int64_t before) {
  const auto iterations = static_cast<double>(std::max<std::int64_t>(record.step - before, 1));
  return static_cast<std::int64_t>(std::clamp(record.skipped.value_or(0.0), 0.0, iterations));
}

/// Leaves out the lines all of whose iterations were skipped, unless too few were left.
void leave_out_skipped(std::vector<TimedRecord>& times) {
  std::vector<TimedRecord> kept;
  std::int64_t before = 0;
  for (const TimedRecord& time : times) {
    const std::int64_t iterations = std::max<std::int64_t>(time.record.step - before, 1);
    if (skipped_of(time.record, before) < iterations) {
      kept.push_back(time);
    }
    before = time.record.step;
  }
  if (kept.size() >= kFewestLogRecords) {
    times = std::move(kept);
  }
}

/// Marks the times of the steady state among all. Both are in the order of iterations.
void mark_steady(std::vector<LoggedTime>& times, const std::vector<TimedRecord>& steady) {
  auto next = steady.begin();
  for (LoggedTime& time : times) {
    time.is_steady = next != steady.end() && next->record.step == time.step;
    next += time.is_steady ? 1 : 0;
  }
}

}  // namespace

SteadyState find_steady_state(const TrainingLog& log, const std::optional<LoggedJob>& job,
                              const std::string& place) {
  SteadyState state;
  std::vector<TimedRecord> times = times_of(log, job, state.derived_from);
  if (times.empty() && !job) {
    throw Error(place +
                ": prints no times: expected --plan, --from or --config too, which say how "
                "many tokens an iteration has");
  }
  for (const TimedRecord& time : times) {
    state.times.push_back({.step = time.record.step, .seconds = time.seconds});
  }
  leave_out_other_batches(times);
  if (times.size() < kFewestLogRecords) {
    throw Error(fmt::format(
        "{}: no steady state: expected {} of one run and batch, found {}", place,
        log.format == LogFormat::kProgressBar
            ? fmt::format("a bar that runs for {:.0f} s", kSpanOfBars * kFewestLogRecords)
            : fmt::format("{} lines of progress", kFewestLogRecords),
        log.format == LogFormat::kProgressBar
            ? fmt::format("{:.0f} s", log.records.back().clock.value_or(0.0))
            : std::to_string(times.size())));
  }
  if (job) {
    const auto with_batch = std::find_if(times.rbegin(), times.rend(), [](const TimedRecord& time) {
      return time.record.batch.has_value();
    });
    if (with_batch != times.rend()) {
      check_logged_batch(with_batch->record, *job, place);
    }
    check_rates(log, times, state.derived_from, *job, place);
  }
  leave_out_skipped(times);

  state.warm_up = static_cast<std::int64_t>(warm_up_of(times));
  times.erase(times.begin(), times.begin() + state.warm_up);
  mark_steady(state.times, times);
  const std::vector<double> seconds = seconds_of(times);
  std::vector<double> rates;
  std::int64_t before = times.front().record.step - 1;
  for (const TimedRecord& time : times) {
    if (time.record.tflops_per_gpu) {
      rates.push_back(*time.record.tflops_per_gpu);
    }
    if (time.record.loss) {
      state.loss = time.record.loss;
      state.loss_step = time.record.step;
    }
    state.skipped += skipped_of(time.record, before);
    before = time.record.step;
  }
  state.lines = std::ssize(times);
  state.first_step = times.front().record.step;
  state.last_step = times.back().record.step;
  state.time = Seconds(median(seconds));
  state.low = Seconds(quantile(seconds, 0.1));
  state.high = Seconds(quantile(seconds, 0.9));
  state.slow = std::count_if(seconds.begin(), seconds.end(),
                             [&](double time) { return time >= kPause * state.time.value(); });
  if (!rates.empty()) {
    state.tflops_per_gpu = median(rates);
  }
  return state;
}

}  // namespace ptdp
