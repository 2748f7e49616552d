// Tests what is told of a rank while its threads write to its log.
#include "runtime/faults/action_log.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ptdp::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr Action kForward{ActionKind::kForward, 2, 7};

TEST(ActionLog, TellsOfTheActionInFlightAndOfThoseBefore) {
  ActionLog log(4, 2);
  log.begin(5, Lane::kCompute, 3, kForward);
  const LaneState during = log.state(5, Lane::kCompute);
  EXPECT_TRUE(during.is_working());
  EXPECT_EQ(during.now.action, kForward);
  EXPECT_EQ(during.now.step, 3);
  EXPECT_EQ(place_of(during.now), "2F7 of step 4");
  EXPECT_THAT(log.last(5, Lane::kCompute), SizeIs(0));

  log.end(5, Lane::kCompute);
  const LaneState after = log.state(5, Lane::kCompute);
  EXPECT_FALSE(after.is_active);
  EXPECT_GT(after.events, during.events);
  ASSERT_THAT(log.last(5, Lane::kCompute), SizeIs(1));
  const Activity ended = log.last(5, Lane::kCompute)[0];
  EXPECT_EQ(ended.action, kForward);
  EXPECT_LE(ended.start, ended.end);
  EXPECT_EQ(log.events(4), 0);
}

std::string written_place(std::size_t room = 100) {
  std::string text(room, 'x');
  text.resize(write_place_of_thread(text));
  return text;
}

TEST(ActionLog, KnowsWhatItsThreadIsInWithoutTheLog) {
  std::thread([] {
    EXPECT_EQ(written_place(), "");
    ActionLog log(4, 2);
    log.enter(5, Phase::kSaving, 3);
    EXPECT_EQ(written_place(), "rank 5: the checkpoint before step 4: ");
    log.enter(5, Phase::kStarting, 3);
    EXPECT_EQ(written_place(), "rank 5: its start: ");
    log.begin(5, Lane::kCompute, 3, kForward);
    EXPECT_EQ(written_place(), "rank 5: 2F7 of step 4: ");
    EXPECT_EQ(written_place(9), "rank 5: 2");
  }).join();
  EXPECT_EQ(written_place(), "");
}

TEST(ActionLog, KeepsTheLastOnesInOrder) {
  ActionLog log(0, 1);
  for (int i = 0; i < 100; ++i) {
    log.begin(0, Lane::kData, 1, {ActionKind::kReduceGradients, 0, i});
    log.end(0, Lane::kData);
  }
  const std::vector<Activity> last = log.last(0, Lane::kData);
  ASSERT_THAT(last, SizeIs(ActionLog::kKept));
  for (std::size_t i = 0; i < last.size(); ++i) {
    EXPECT_EQ(last[i].action->microbatch,
              100 - static_cast<int>(ActionLog::kKept) + static_cast<int>(i));
  }
}

// On a device one thread queues the work of all lanes.
TEST(ActionLog, ComesBackToTheLaneThatAnotherOfItsThreadInterrupted) {
  ActionLog log(0, 1);
  log.enter(0, Phase::kBetweenSteps, 0);
  log.begin(0, Lane::kCompute, 0, kForward);
  log.begin(0, Lane::kData, 0, {ActionKind::kReduceGradients, 0, 0});
  log.end(0, Lane::kData);
  {
    const ActionLog::Wait wait(log);
    EXPECT_FALSE(log.state(0, Lane::kCompute).is_working());
    EXPECT_FALSE(log.state(0, Lane::kData).is_active);
  }
  EXPECT_TRUE(log.state(0, Lane::kCompute).is_working());
}

TEST(ActionLog, TellsWaitingFromWorking) {
  ActionLog log(0, 1);
  log.begin(0, Lane::kCompute, 0, kForward);
  {
    const ActionLog::Wait wait(log);
    EXPECT_FALSE(log.state(0, Lane::kCompute).is_working());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_TRUE(log.state(0, Lane::kCompute).is_working());
  log.end(0, Lane::kCompute);
  const Activity ended = log.last(0, Lane::kCompute)[0];
  EXPECT_GE(ended.waited, 2'000'000);
  // What was waited for does not count as the action's own time.
  EXPECT_EQ(log.longest(ActionKind::kForward).value(),
            1e-9 * static_cast<double>(ended.end - ended.start - ended.waited));
}

// A rank that reads from its device may wait within that for what it queued before.
TEST(ActionLog, WaitsUntilTheOutermostWaitEnds) {
  ActionLog log(0, 1);
  log.begin(0, Lane::kCompute, 0, kForward);
  {
    const ActionLog::Wait wait(log);
    { const ActionLog::Wait within(log); }
    EXPECT_FALSE(log.state(0, Lane::kCompute).is_working());
  }
  EXPECT_TRUE(log.state(0, Lane::kCompute).is_working());
}

TEST(ActionLog, KeepsAWaitThatAFaultEnds) {
  ActionLog log(0, 1);
  log.begin(0, Lane::kCompute, 0, kForward);
  try {
    const ActionLog::Wait wait(log);
    throw std::runtime_error("aborted");
  } catch (const std::runtime_error&) {
    EXPECT_FALSE(log.state(0, Lane::kCompute).is_working());
  }
}

TEST(ActionLog, TakesNoWaitOfAThreadThatIsInNothing) {
  ActionLog log(0, 1);
  ActionLog other(0, 1);
  other.begin(0, Lane::kCompute, 0, kForward);
  const ActionLog::Wait wait(log);
  EXPECT_TRUE(other.state(0, Lane::kCompute).is_working());
  EXPECT_EQ(log.events(0), 0);
}

// Every action has its microbatch in both numbers: a mix of two would show.
TEST(ActionLog, IsReadWholeWhileItIsWritten) {
  ActionLog log(0, 1);
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    for (int i = 0; i < 20000; ++i) {
      log.begin(0, Lane::kCompute, i, {ActionKind::kForward, i % 1000, i});
      log.end(0, Lane::kCompute);
    }
    is_over = true;
  });
  std::int64_t seen = 0;
  while (!is_over) {
    const LaneState state = log.state(0, Lane::kCompute);
    if (state.is_active && state.events % 2 == 0) {
      ASSERT_EQ(state.now.action->microbatch, state.now.step);
      ASSERT_EQ(state.now.action->stage, state.now.step % 1000);
      ++seen;
    }
    for (const Activity& activity : log.last(0, Lane::kCompute)) {
      ASSERT_LE(activity.start, activity.end);
    }
  }
  writer.join();
  EXPECT_EQ(log.last(0, Lane::kCompute).back().step, 19999);
}

TEST(DescribeActions, BeginsWithWhoWorksAndIsBounded) {
  ActionLog log(0, 64);
  std::vector<std::unique_ptr<ActionLog::Wait>> waits;
  for (int rank = 0; rank < 64; ++rank) {
    std::thread thread([&] {
      log.begin(rank, Lane::kCompute, 0, {ActionKind::kBackward, rank, 0});
      if (rank != 37) {
        // Left behind by its thread, as by one that sleeps.
        waits.push_back(std::make_unique<ActionLog::Wait>(log));
      }
    });
    thread.join();
  }
  const std::string text = describe_actions(log, 10, 4);
  EXPECT_THAT(text, StartsWith("rank 37 has worked in 37B0 of step 1 for "));
  EXPECT_THAT(text, HasSubstr("rank 0 has waited in 0B0 of step 1"));
  EXPECT_THAT(text, HasSubstr("and 54 more\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 11);
  EXPECT_THAT(describe_actions(log, 1000, 4), Not(HasSubstr("more\n")));
}

TEST(DescribeActions, HasALineForEveryLaneOfEveryRankThatSomethingRanOn) {
  ActionLog log(6, 3);
  const std::vector<std::pair<Lane, Action>> lanes = {
      {Lane::kCompute, {ActionKind::kForward, 0, 1}},
      {Lane::kForwardMessages, {ActionKind::kSendForward, 0, 2}},
      {Lane::kBackwardMessages, {ActionKind::kSendBackward, 0, 3}},
      {Lane::kData, {ActionKind::kReduceGradients, 0, 4}}};
  for (const int rank : {6, 8}) {  // nothing of 7
    for (const auto& [lane, action] : lanes) {
      log.begin(rank, lane, 0, action);
    }
  }
  const std::string text = describe_actions(log, 8, 4);
  for (const std::string rank : {"rank 6", "rank 8"}) {
    EXPECT_THAT(text, HasSubstr(rank + " has worked in 0F1 of step 1 for "));
    EXPECT_THAT(text,
                HasSubstr(rank + " (messages forward) has worked in 0SEND_F2 of step 1 for "));
    EXPECT_THAT(text,
                HasSubstr(rank + " (messages backward) has worked in 0SEND_B3 of step 1 for "));
    EXPECT_THAT(text,
                HasSubstr(rank + " (data parallel) has worked in 0REDUCE_GRAD4 of step 1 for "));
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 8) << text;
  EXPECT_THAT(describe_actions(log, 7, 4), HasSubstr("\nand 1 more\n"));
}

// Of five actions that ended the last two are told, in their order.
TEST(DescribeActions, TellsOfSoManyBeforeAndNoMore) {
  ActionLog log(0, 1);
  for (int i = 0; i < 5; ++i) {
    log.begin(0, Lane::kCompute, 0, {ActionKind::kForward, 0, i});
    log.end(0, Lane::kCompute);
  }
  const std::string text = describe_actions(log, 10, 2);
  EXPECT_THAT(text, StartsWith("rank 0 is idle; before that: 0F3 "));
  EXPECT_THAT(text, HasSubstr(" 0F4 "));
  EXPECT_THAT(text, Not(HasSubstr("0F2")));
  EXPECT_EQ(describe_actions(log, 10, 0), "rank 0 is idle\n");
}

/// A duration as a message tells it, and half a unit of its last digit.
struct ToldDuration {
  double nanoseconds = 0.0;
  double rounding = 0.0;
};

ToldDuration told_duration(const std::string& text) {
  std::istringstream words(text);
  double number = 0.0;
  std::string unit;
  words >> number >> unit;
  if (unit == "us") {
    return {.nanoseconds = 1e3 * number, .rounding = 0.5e3};
  }
  EXPECT_TRUE(unit == "ms" || unit == "s") << text;
  const double of_unit = unit == "ms" ? 1e6 : 1e9;
  return {.nanoseconds = of_unit * number, .rounding = 0.05 * of_unit};
}

// However long they took: the log itself knows it in nanoseconds.
TEST(DescribeActions, TellsDurationsInTheUnitThatItNames) {
  for (const int milliseconds : {0, 2, 20}) {
    ActionLog log(0, 1);
    log.begin(0, Lane::kCompute, 0, kForward);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    log.end(0, Lane::kCompute);
    const Activity ended = log.last(0, Lane::kCompute)[0];
    const std::string text = describe_actions(log, 1, 1);
    const std::string before = "rank 0 is idle; before that: 2F7 ";
    ASSERT_THAT(text, StartsWith(before));
    const ToldDuration told = told_duration(text.substr(before.size()));
    EXPECT_NEAR(told.nanoseconds, static_cast<double>(ended.end - ended.start),
                1.001 * told.rounding)
        << text;
  }
}

TEST(ActionLog, NamesEveryPhase) {
  const auto named = [](Phase phase) {
    return place_of({.action = std::nullopt, .phase = phase, .step = 6});
  };
  EXPECT_EQ(named(Phase::kStarting), "its start");
  EXPECT_EQ(named(Phase::kRestoring), "reading weights or a checkpoint");
  EXPECT_EQ(named(Phase::kSaving), "the checkpoint before step 7");
  EXPECT_EQ(named(Phase::kBetweenSteps), "the time before step 7");
  EXPECT_EQ(named(Phase::kExporting), "the export");
  EXPECT_EQ(named(Phase::kDone), "its end");
}

TEST(DescribeActions, TellsWhatARankDidBefore) {
  ActionLog log(0, 1);
  log.enter(0, Phase::kStarting, 0);
  log.begin(0, Lane::kCompute, 0, {ActionKind::kForward, 0, 0});
  log.end(0, Lane::kCompute);
  log.begin(0, Lane::kForwardMessages, 0, {ActionKind::kSendForward, 0, 0});
  const std::string text = describe_actions(log, 10, 4);
  EXPECT_THAT(text, HasSubstr("rank 0 (messages forward) has worked in 0SEND_F0 of step 1"));
  EXPECT_THAT(text, HasSubstr("rank 0 is idle; before that: its start "));
  EXPECT_THAT(text, HasSubstr(" 0F0 "));
}

}  // namespace
}  // namespace ptdp::testing
