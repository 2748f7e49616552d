#include "planner/logs/steady_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/measured/quantile.h"
#include "cost_model/text/plural.h"

namespace ptdp {
namespace {

// A clock that counts whole seconds, as bars do, is 1 % wrong over 100 of them.
constexpr double kSpanOfBars = 50.0;
constexpr double kSpanOfStamps = 0.5;
// No iteration takes less or more [s]: such numbers are misread or a fault of the program.
constexpr double kShortest = 1e-6;
constexpr double kLongest = 1e7;
// What nanotron prints has three digits.
constexpr double kSameBatch = 0.006;

/// A line of progress with the time of its iterations.
struct TimedRecord {
  LogRecord record;
  double seconds = 0.0;
};

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
      times.push_back(
          {record, (*record.clock - *last->clock) / static_cast<double>(record.step - last->step)});
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
    if (seconds >= kShortest && seconds <= kLongest) {
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
    return take(std::move(by_clock), "time stamps");
  }
  if (job) {
    auto by_samples = times_by(log.records, &LogRecord::samples_per_second,
                               [&](double rate) { return job->sequences / rate; });
    if (!by_samples.empty()) {
      return take(std::move(by_samples), "sequences per second");
    }
  }
  return take(std::move(by_clock), "time stamps");
}

/// Throws Error at `place` unless the log's batch is the job's, in sequences or in tokens.
void check_logged_batch(const std::vector<TimedRecord>& times, const LoggedJob& job,
                        const std::string& place) {
  const std::optional<double>& batch = times.back().record.batch;
  const auto is_near = [&](double other) { return std::abs(*batch / other - 1.0) <= kSameBatch; };
  if (batch && !is_near(job.sequences) && !is_near(job.tokens)) {
    throw Error(
        fmt::format("{}: iteration {}: global batch size: found {:g}, expected the {:g} of "
                    "the plan",
                    place, times.back().record.step, *batch, job.sequences));
  }
}

/// Returns how many lines at the start are slower than the rest, the first one included.
std::size_t warm_up_of(const std::vector<TimedRecord>& times) {
  std::vector<double> later;
  for (std::size_t i = times.size() / 2; i < times.size(); ++i) {
    later.push_back(times[i].seconds);
  }
  const double usual = median(later);
  std::size_t count = 1;
  while (count < times.size() / 2 && times[count].seconds > kWarmUp * usual) {
    ++count;
  }
  return count;
}

/// Removes the lines for which `is_apart` holds, unless too few were left.
template <class IsApart>
void leave_out(std::vector<TimedRecord>& times, IsApart is_apart) {
  std::vector<TimedRecord> kept;
  std::copy_if(times.begin(), times.end(), std::back_inserter(kept),
               [&](const TimedRecord& time) { return !is_apart(time.record); });
  if (kept.size() >= kFewestLogRecords) {
    times = std::move(kept);
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
  if (job && !times.empty()) {
    check_logged_batch(times, *job, place);
  }
  if (!times.empty()) {
    const std::optional<double> batch = times.back().record.batch;
    std::erase_if(times, [&](const TimedRecord& time) { return time.record.batch != batch; });
  }
  if (times.size() < kFewestLogRecords) {
    throw Error(
        fmt::format("{}: no steady state: expected at least {} lines of progress of one "
                    "run and batch, found {}",
                    place, kFewestLogRecords, std::max(times.size(), std::size_t{1})));
  }
  std::int64_t before = 0;
  leave_out(times, [&](const LogRecord& record) {
    const std::int64_t since = record.step - std::exchange(before, record.step);
    return record.skipped && *record.skipped > 0.0 &&
           *record.skipped >= static_cast<double>(std::max<std::int64_t>(since, 1));
  });

  state.warm_up = static_cast<std::int64_t>(warm_up_of(times));
  times.erase(times.begin(), times.begin() + state.warm_up);
  std::vector<double> seconds;
  std::vector<double> rates;
  for (const TimedRecord& time : times) {
    seconds.push_back(time.seconds);
    if (time.record.tflops_per_gpu) {
      rates.push_back(*time.record.tflops_per_gpu);
    }
    state.loss = time.record.loss ? time.record.loss : state.loss;
    state.skipped += static_cast<std::int64_t>(time.record.skipped.value_or(0.0));
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
