// Tests of the steady state, held against times whose median is plain to see.
#include "planner/logs/steady_state.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

/// Returns a log with a line for each of the times [s], from iteration 1 on.
TrainingLog timed_log(const std::vector<double>& seconds) {
  TrainingLog log;
  for (const double time : seconds) {
    LogRecord record;
    record.step = std::ssize(log.records) + 1;
    record.seconds = time;
    log.records.push_back(record);
  }
  return log;
}

SteadyState steady(const TrainingLog& log, const std::optional<LoggedJob>& job = {}) {
  return find_steady_state(log, job, "x.log");
}

// 30 and 8 are a start; of 5, 4, 4, 6, 4, 4 (5 is beyond 1.1 · 4) a tenth lies below 4, the median
// of 4, 4, 6, 4, 4 is 4, and 6 is a pause.
TEST(FindSteadyState, LeavesOutTheStart) {
  const SteadyState state = steady(timed_log({30.0, 8.0, 5.0, 4.0, 4.0, 6.0, 4.0, 4.0}));
  EXPECT_EQ(state.time, Seconds(4.0));
  EXPECT_EQ(state.warm_up, 3);
  EXPECT_EQ(state.lines, 5);
  EXPECT_EQ(state.slow, 1);
  EXPECT_EQ(state.first_step, 4);
  EXPECT_EQ(state.last_step, 8);
  EXPECT_EQ(state.derived_from, "");
}

// Lines of another batch and of skipped iterations have a time, too, and are no part of it.
TEST(FindSteadyState, KeepsTheTimesOfAllLines) {
  TrainingLog log = timed_log({9.0, 2.0, 3.0, 4.0, 5.0, 4.0, 4.0, 4.0});
  for (LogRecord& record : log.records) {
    record.batch = record.step == 2 ? 8.0 : 16.0;
  }
  log.records[4].skipped = 1.0;
  std::vector<double> seconds;
  std::vector<std::int64_t> is_steady;
  for (const LoggedTime& time : steady(log).times) {
    seconds.push_back(time.seconds);
    if (time.is_steady) {
      is_steady.push_back(time.step);
    }
  }
  EXPECT_THAT(seconds, testing::ElementsAre(9.0, 2.0, 3.0, 4.0, 5.0, 4.0, 4.0, 4.0));
  EXPECT_THAT(is_steady, testing::ElementsAre(3, 4, 6, 7, 8));
}

// The first of 1 … 11 is left out. The median of 2 … 11 is 6.5, a tenth of the way up is 2.9.
TEST(FindSteadyState, SpreadsFromATenthToNineTenths) {
  std::vector<double> seconds = {1.0};
  for (int i = 2; i <= 11; ++i) {
    seconds.push_back(i);
  }
  const SteadyState state = steady(timed_log(seconds));
  EXPECT_EQ(state.time, Seconds(6.5));
  EXPECT_NEAR(state.low.value(), 2.9, 1e-12);
  EXPECT_NEAR(state.high.value(), 10.1, 1e-12);
}

TEST(FindSteadyState, LeavesOutAtMostHalf) {
  const SteadyState state = steady(timed_log({9.0, 9.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0}));
  EXPECT_EQ(state.warm_up, 4);
  EXPECT_EQ(state.time, Seconds(1.0));
}

// The batch grows from 8 to 16; iterations that fp16 skips go without an optimizer.
TEST(FindSteadyState, LeavesOutOtherBatchesAndSkippedIterations) {
  TrainingLog log = timed_log({1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 1.5});
  for (std::size_t i = 0; i < log.records.size(); ++i) {
    log.records[i].batch = i < 4 ? 8.0 : 16.0;
    log.records[i].loss = static_cast<double>(i);
  }
  log.records.back().skipped = 1.0;
  const SteadyState state = steady(log);
  EXPECT_EQ(state.time, Seconds(2.0));
  EXPECT_EQ(state.first_step, 6);
  EXPECT_EQ(state.last_step, 8);
  EXPECT_EQ(state.skipped, 0);
  EXPECT_EQ(state.loss, 7.0);
}

TEST(FindSteadyState, TakesSkippedIterationsWhereThereAreNoOthers) {
  TrainingLog log = timed_log({2.0, 2.0, 2.0});
  for (LogRecord& record : log.records) {
    record.skipped = 1.0;
  }
  EXPECT_EQ(steady(log).skipped, 2);
  EXPECT_EQ(steady(log).time, Seconds(2.0));
}

// 1000 tokens of a GPU at 250 a second are 4 s; 64 sequences at 32 a second are 2 s.
TEST(FindSteadyState, DerivesTimesFromRates) {
  const LoggedJob job = {.sequences = 64.0, .tokens = 8000.0, .tokens_per_gpu = 1000.0};
  TrainingLog log = timed_log({0.0, 0.0, 0.0, 0.0});
  for (LogRecord& record : log.records) {
    record.tokens_per_gpu_second = 250.0;
    record.samples_per_second = 32.0;
  }
  EXPECT_EQ(steady(log, job).time, Seconds(4.0));
  EXPECT_EQ(steady(log, job).derived_from, "tokens per second");
  for (LogRecord& record : log.records) {
    record.tokens_per_gpu_second.reset();
  }
  EXPECT_EQ(steady(log, job).time, Seconds(2.0));
  EXPECT_EQ(steady(log, job).derived_from, "sequences per second");
  EXPECT_THAT(message_of([&] { return steady(log); }), HasSubstr("--plan"));
}

// Ten iterations between lines, 7.5 s apart: 0.75 s each. One pause of 300 s does not count.
TEST(FindSteadyState, DerivesTimesFromStamps) {
  TrainingLog log = timed_log({0.0, 0.0, 0.0, 0.0, 0.0, 0.0});
  log.format = LogFormat::kDeepSpeed;
  double clock = 1000.0;
  for (LogRecord& record : log.records) {
    record.step *= 10;
    clock += record.step == 40 ? 300.0 : 7.5;
    record.clock = clock;
  }
  const SteadyState state = steady(log);
  EXPECT_NEAR(state.time.value(), 0.75, 1e-12);
  EXPECT_EQ(state.derived_from, "time stamps");
  EXPECT_EQ(state.slow, 1);
}

// A bar counts whole seconds. Steps of 2.4 s are seen as 2 and 3 s, but 50 s are 21 of them.
TEST(FindSteadyState, TakesLongSpansOfABar) {
  TrainingLog log = timed_log(std::vector<double>(200, 0.0));
  log.format = LogFormat::kProgressBar;
  for (LogRecord& record : log.records) {
    record.clock = std::floor(2.4 * static_cast<double>(record.step));
  }
  EXPECT_NEAR(steady(log).time.value(), 2.4, 0.024);
}

TEST(FindSteadyState, RefusesALogThatIsTooShort) {
  EXPECT_EQ(message_of([] {
              return steady(timed_log({1.0, 1.0}));
            }),
            "x.log: no steady state: expected 3 lines of progress of one run and batch, found 2");
}

// nanotron prints tokens with three digits: 8000 as 8K, and 8.04K would still be the same. Others
// print sequences.
TEST(FindSteadyState, RefusesAnotherBatchThanThePlans) {
  const LoggedJob job = {.sequences = 64.0, .tokens = 8000.0, .tokens_per_gpu = 1000.0};
  const auto log_with = [](LogFormat format, double batch) {
    TrainingLog log = timed_log({1.0, 1.0, 1.0});
    log.format = format;
    for (LogRecord& record : log.records) {
      record.format = format;
      record.batch = batch;
    }
    return log;
  };
  for (const double batch : {64.0, 8000.0, 8040.0}) {
    EXPECT_EQ(steady(log_with(LogFormat::kNanotron, batch), job).time, Seconds(1.0));
  }
  EXPECT_EQ(steady(log_with(LogFormat::kMegatron, 64.0), job).time, Seconds(1.0));
  for (const double batch : {63.0, 32.0, 8000.0}) {
    EXPECT_THAT(message_of([&] { return steady(log_with(LogFormat::kMegatron, batch), job); }),
                HasSubstr(", expected the 64 of the plan"));
  }
}

// A last line without a batch is of the batch before.
TEST(FindSteadyState, TakesLinesWithoutABatch) {
  TrainingLog log = timed_log({1.0, 1.0, 1.0, 1.0});
  for (std::size_t i = 0; i < 3; ++i) {
    log.records[i].batch = 64.0;
  }
  EXPECT_EQ(steady(log).lines, 3);
}

// 250 tokens a second in 1 s are 250, where the plan has 1000 for a GPU; stamps 1 s apart are no 4
// s.
TEST(FindSteadyState, RefusesRatesThatContradictThePlan) {
  const LoggedJob job = {.sequences = 64.0, .tokens = 8000.0, .tokens_per_gpu = 1000.0};
  TrainingLog log = timed_log({1.0, 1.0, 1.0, 1.0});
  for (LogRecord& record : log.records) {
    record.tokens_per_gpu_second = 250.0;
  }
  EXPECT_THAT(
      message_of([&] { return steady(log, job); }),
      HasSubstr("tokens of a GPU in the time of an iteration: found 250, expected the 1000"));
  for (LogRecord& record : log.records) {
    record.seconds.reset();
    record.clock = static_cast<double>(record.step);
  }
  EXPECT_THAT(message_of([&] { return steady(log, job); }),
              HasSubstr("an iteration: found 1 s by the time stamps, expected the 4 s"));
}

// More skipped iterations than there are, as a faulty log may say.
TEST(FindSteadyState, CountsNoMoreSkippedIterationsThanThereAre) {
  TrainingLog log = timed_log({1.0, 1.0, 1.0, 1.0});
  for (LogRecord& record : log.records) {
    record.skipped = 9e17;
  }
  EXPECT_EQ(steady(log).skipped, 3);
}

}  // namespace
}  // namespace ptdp
