// Tests of Megatron's timers, in the three forms that it prints, with numbers read off by hand.
#include "planner/logs/log_timers.h"

#include <gmock/gmock.h>

#include "planner/logs/training_log.h"
#include "tests/support/temporary_directory.h"

namespace ptdp {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST(TimersOf, ReadsTheLineOfOneRank) {
  const std::vector<LogTimer> timers = timers_of(
      "7: time (ms) | forward-compute: 265.50 | forward-recv: 1118.94 | save-checkpoint: 8.00 | "
      "optimizer: 12.25");
  ASSERT_THAT(timers, SizeIs(3));
  EXPECT_EQ(timers[0].name, "forward-compute");
  EXPECT_NEAR(timers[0].low, 0.2655, 1e-12);
  EXPECT_NEAR(timers[0].high, 0.2655, 1e-12);
  EXPECT_EQ(timers[2].name, "optimizer");
  EXPECT_NEAR(timers[2].high, 0.01225, 1e-12);
}

TEST(TimersOf, ReadsTheLeastAndTheMostOfAllRanks) {
  const std::vector<LogTimer> range = timers_of(
      "[default7]:    forward-compute ................................: (120.25, 265.50)");
  ASSERT_THAT(range, SizeIs(1));
  EXPECT_EQ(range[0].name, "forward-compute");
  EXPECT_NEAR(range[0].low, 0.12025, 1e-12);
  EXPECT_NEAR(range[0].high, 0.2655, 1e-12);
  const std::vector<LogTimer> most =
      timers_of("    optimizer ......................................: 12.25");
  ASSERT_THAT(most, SizeIs(1));
  EXPECT_NEAR(most[0].low, 0.01225, 1e-12);
}

TEST(TimersOf, LeavesOtherLinesAlone) {
  for (const char* line :
       {"", "time (ms)", "time (ms) | model-and-optimizer-setup: 336.26", "  num_layers ....... 24",
        "(min, max) time across ranks (ms):", "    optimizer ....: (12.25", "    optimizer ....: x",
        "    optimizer ....: -3.0", "    optimizer ....: 1e300"}) {
    EXPECT_THAT(timers_of(line), IsEmpty()) << line;
  }
}

// Medians of 1, 2, 9 and of 4, 5, 6 ms.
TEST(LoggedTimers, HaveTheMediansOfIterations) {
  LoggedTimers timers;
  timers.add("    optimizer ....: (1.0, 5.0)");
  timers.add("    optimizer ....: (9.0, 4.0)");
  timers.add("    optimizer ....: (2.0, 6.0)");
  ASSERT_THAT(timers.medians(), SizeIs(1));
  EXPECT_NEAR(timers.medians()[0].low, 0.002, 1e-12);
  EXPECT_NEAR(timers.medians()[0].high, 0.005, 1e-12);
  EXPECT_THAT(LoggedTimers().medians(), IsEmpty());
}

CostBreakdown hundred_seconds() {
  CostBreakdown cost;
  cost.matmul = Seconds(60.0);
  cost.recompute = Seconds(20.0);
  cost.bubble = Seconds(10.0);
  cost.pipeline_messages = Seconds(5.0);
  cost.data_parallel = Seconds(3.0);
  cost.optimizer = Seconds(2.0);
  return cost;
}

// 60 + 20 s are passes, 10 + 5 s waiting, 3 s replicas, 2 s the optimizer.
TEST(SplitByTimers, SetsTimersBesideTheirTerms) {
  const std::vector<TimedPart> parts = split_by_timers({{"forward-compute", 20.0, 30.0},
                                                        {"backward-compute", 55.0, 60.0},
                                                        {"forward-recv", 4.0, 9.0},
                                                        {"embedding-grads-all-reduce", 1.0, 2.0},
                                                        {"all-grads-sync", 3.5, 3.5},
                                                        {"optimizer", 1.5, 2.5}},
                                                       hundred_seconds());
  ASSERT_THAT(parts, SizeIs(4));
  EXPECT_EQ(parts[0].name, "passes");
  EXPECT_EQ(parts[0].predicted, Seconds(80.0));
  EXPECT_EQ(parts[0].low, Seconds(75.0));
  EXPECT_EQ(parts[0].high, Seconds(90.0));
  EXPECT_EQ(parts[1].predicted, Seconds(15.0));
  EXPECT_EQ(parts[1].high, Seconds(11.0));
  EXPECT_EQ(parts[2].predicted, Seconds(3.0));
  EXPECT_EQ(parts[3].predicted, Seconds(2.0));
  EXPECT_EQ(parts[3].low, Seconds(1.5));
}

// --timing-log-level 1 times passes and waiting together.
TEST(SplitByTimers, TakesPassesAndWaitingTogetherWhereTheLogDoes) {
  const std::vector<TimedPart> parts =
      split_by_timers({{"forward-backward", 90.0, 96.0}}, hundred_seconds());
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_EQ(parts[0].name, "passes and waiting");
  EXPECT_EQ(parts[0].predicted, Seconds(95.0));
}

TEST(SplitByTimers, CountsEveryTermOnce) {
  CostBreakdown cost;
  Seconds all;
  for (const CostTerm& term : kCostTerms) {
    if (term.name != "core_sharing") {  // of ptdp-run's hosts, which Megatron does not time
      cost.*term.time = Seconds(1.0);
      all += Seconds(1.0);
    }
  }
  Seconds sum;
  for (const TimedPart& part : split_by_timers({{"forward-compute", 1.0, 1.0},
                                                {"forward-recv", 1.0, 1.0},
                                                {"all-grads-sync", 1.0, 1.0},
                                                {"optimizer", 1.0, 1.0}},
                                               cost)) {
    sum += part.predicted;
  }
  EXPECT_EQ(sum, all);
}

// Timers before a restart are another run's.
TEST(ReadTrainingLog, TakesTimersOfTheLastRun) {
  const TemporaryDirectory directory;
  std::string content;
  for (const char* milliseconds : {"10.0", "40.0"}) {
    for (int step = 1; step <= 3; ++step) {
      content += "iteration " + std::to_string(step) +
                 "/ 5 | elapsed time per iteration (ms): 1000.0 |\ntime (ms) | optimizer: " +
                 milliseconds + "\n";
    }
  }
  const TrainingLog log = read_training_log(directory.file("x.log", content));
  ASSERT_THAT(log.timers, SizeIs(1));
  EXPECT_NEAR(log.timers[0].high, 0.04, 1e-12);
}

}  // namespace
}  // namespace ptdp
