// Tests what is kept of the ranks' steps for a report at any moment.
#include "runtime/run/run_journal.h"

#include <gtest/gtest.h>

#include "runtime/run/training_run.h"

namespace ptdp::testing {
namespace {

StepRecord step_of(double norm) {
  StepRecord step;
  step.gradient_norm = norm;
  step.actions.resize(3);
  return step;
}

TEST(RunJournal, GivesTheStepsThatAllRanksHave) {
  RunJournal journal(2);
  for (const double step : {0.0, 1.0, 2.0}) {
    journal.add(0, step_of(step), {.peak_bytes = 10 + static_cast<std::int64_t>(step)});
    if (step < 2.0) {
      journal.add(1, step_of(step), {.peak_bytes = 20});
    }
  }
  const std::vector<RankRecord> records = journal.common_steps();
  ASSERT_EQ(records.size(), 2U);
  for (const RankRecord& record : records) {
    ASSERT_EQ(record.steps.size(), 2U);
    EXPECT_EQ(record.steps.back().gradient_norm, 1.0);
  }
  EXPECT_EQ(records[0].peak_bytes, 11);  // at the end of the second step, not of the third
  EXPECT_EQ(records[1].peak_bytes, 20);
}

TEST(RunJournal, GivesNoStepBeforeAllHaveOne) {
  RunJournal journal(2);
  journal.add(0, step_of(0.0), {});
  for (const RankRecord& record : journal.common_steps()) {
    EXPECT_TRUE(record.steps.empty());
  }
}

// The journal at the end of a run that went well.
TEST(RunJournal, GivesAllStepsAndTheLastTotalsAtTheEnd) {
  RunJournal journal(2);
  for (std::int64_t step = 0; step < kDetailedSteps + 2; ++step) {
    for (const int rank : {0, 1}) {
      journal.add(rank, step_of(static_cast<double>(step)), {.peak_bytes = 100 * rank + step});
    }
  }
  const std::vector<RankRecord> records = journal.take_common_steps();
  ASSERT_EQ(records.size(), 2U);
  for (const int rank : {0, 1}) {
    const RankRecord& record = records[static_cast<std::size_t>(rank)];
    EXPECT_EQ(record.peak_bytes, 100 * rank + kDetailedSteps + 1);
    ASSERT_EQ(std::ssize(record.steps), kDetailedSteps + 2);
    for (std::int64_t step = 0; step < kDetailedSteps + 2; ++step) {
      const StepRecord& kept = record.steps[static_cast<std::size_t>(step)];
      EXPECT_EQ(kept.gradient_norm, static_cast<double>(step));
      EXPECT_EQ(kept.actions.empty(), step < 2) << step;
    }
  }
}

TEST(RunJournal, KeepsTheDetailsOfTheLastCommonSteps) {
  RunJournal journal(2);
  for (std::int64_t step = 0; step < kDetailedSteps + 5; ++step) {
    journal.add(0, step_of(0.0), {});
    if (step < kDetailedSteps + 4) {
      journal.add(1, step_of(0.0), {});
    }
  }
  for (const RankRecord& record : journal.common_steps()) {
    ASSERT_EQ(std::ssize(record.steps), kDetailedSteps + 4);
    for (std::int64_t step = 0; step < kDetailedSteps + 4; ++step) {
      EXPECT_EQ(record.steps[static_cast<std::size_t>(step)].actions.empty(), step < 4) << step;
    }
  }
}

}  // namespace
}  // namespace ptdp::testing
