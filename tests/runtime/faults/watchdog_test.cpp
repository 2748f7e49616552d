// Tests when a world counts as hanging, which rank is blamed, and how a run is ended.
#include "runtime/faults/watchdog.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/transport/threads/thread_world.h"

namespace ptdp::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

/// Returns the activity of a rank in an action since `since`; with `waits` it has waited from then
/// on.
RankActivity in_action(int rank, std::int64_t events, const Action& action, std::int64_t since,
                       bool waits) {
  return {.rank = rank,
          .state = {.events = events,
                    .is_active = true,
                    .now = {.action = action, .step = 2, .start = since},
                    .waits_since = waits ? since : 0}};
}

const Action kLateForward{ActionKind::kForward, 1, 3};
const Action kBackward{ActionKind::kBackward, 0, 2};

/// Looks ten times a second, from `from` to `to`, at a world that does not change. Returns the
/// fault that is found.
std::optional<RunFault> look_on(StallDetector& detector, const std::vector<RankActivity>& world,
                                std::int64_t from, std::int64_t to) {
  for (std::int64_t now = from; now <= to; now += kSecond / 10) {
    if (auto fault = detector.look(now, world)) {
      return fault;
    }
  }
  return std::nullopt;
}

TEST(Deadline, IsFarBeyondWhatIsPredictedAndWhatWasSeen) {
  DeadlineRule rule{.least = Seconds(10.0), .factor = 20.0, .unknown = Seconds(300.0)};
  rule.predicted[{ActionKind::kForward, 1}] = Seconds(2.0);
  const Activity forward{.action = kLateForward};
  EXPECT_EQ(deadline_of(rule, forward, Seconds(0.0)).value(), 40.0);
  EXPECT_EQ(deadline_of(rule, forward, Seconds(3.0)).value(), 60.0);
  const Activity other{.action = kBackward};
  EXPECT_EQ(deadline_of(rule, other, Seconds(0.0)).value(), 300.0);
  EXPECT_EQ(deadline_of(rule, other, Seconds(0.001)).value(), 10.0);
  EXPECT_EQ(deadline_of(rule, {.phase = Phase::kSaving}, Seconds(0.0)).value(), 300.0);
  rule.prepares_in_first = true;
  EXPECT_EQ(deadline_of(rule, forward, Seconds(0.0)).value(), 300.0);
  EXPECT_EQ(deadline_of(rule, forward, Seconds(3.0)).value(), 60.0);
  rule.fixed = Seconds(1.5);
  EXPECT_EQ(deadline_of(rule, forward, Seconds(3.0)).value(), 1.5);
  EXPECT_EQ(deadline_of(rule, {.phase = Phase::kSaving}, Seconds(0.0)).value(), 8.0);
}

TEST(Deadline, IsReadOfItsFlag) {
  EXPECT_EQ(phase_deadline(*parse_deadline_rule("auto")), Seconds(300.0));
  EXPECT_EQ(phase_deadline(*parse_deadline_rule("0.5")), Seconds(8.0));
  EXPECT_EQ(phase_deadline(*parse_deadline_rule("8")), Seconds(8.0));
  EXPECT_EQ(phase_deadline(*parse_deadline_rule("20")), Seconds(20.0));
  EXPECT_EQ(phase_deadline(*parse_deadline_rule("1e7")), Seconds(1e7));
  EXPECT_FALSE(parse_deadline_rule("10000001"));
  EXPECT_EQ(phase_deadline(*parse_deadline_rule("off")), std::nullopt);
  for (const char* text : {"", "0", "-1", "4s", "nan", "1e8", "soon"}) {
    EXPECT_FALSE(parse_deadline_rule(text)) << text;
  }
}

// Two seconds are not longer than two seconds; what nobody is in has the time of a phase.
TEST(StallDetector, LetsADeadlineGoByInFull) {
  StallDetector detector({.fixed = Seconds(2.0)});
  const std::vector<RankActivity> world = {in_action(0, 5, kLateForward, kSecond, false)};
  EXPECT_FALSE(look_on(detector, world, kSecond, 3 * kSecond));
  const auto fault = detector.look(3 * kSecond + 1, world);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->what, "has not ended for 2.0 s, expected at most 2.0 s (--deadline)");
  StallDetector idle({.fixed = Seconds(9.0)});
  const std::vector<RankActivity> nobody = {{.rank = 0, .state = {.events = 5}}};
  EXPECT_FALSE(look_on(idle, nobody, kSecond, 10 * kSecond));
  EXPECT_EQ(to_string(idle.look(10 * kSecond + 1, nobody).value_or(RunFault())),
            "no rank did anything for 9.0 s");
}

TEST(StallDetector, EndsAPhaseThatTakesLongerThanItsDeadline) {
  StallDetector detector({.fixed = Seconds(9.0)});
  const std::vector<RankActivity> world = {
      {.rank = 1,
       .state = {.events = 5,
                 .is_active = true,
                 .now = {.phase = Phase::kSaving, .step = 3, .start = kSecond}}}};
  const auto fault = look_on(detector, world, kSecond, 11 * kSecond);
  ASSERT_TRUE(fault);
  EXPECT_THAT(to_string(*fault),
              HasSubstr("rank 1: the checkpoint before step 4: has not ended for "));
}

TEST(StallDetector, NamesTheRankThatWorksWhileTheOthersWait) {
  StallDetector detector({.fixed = Seconds(2.0)});
  const std::vector<RankActivity> world = {in_action(0, 5, kBackward, kSecond, true),
                                           in_action(3, 9, kLateForward, 2 * kSecond, false),
                                           in_action(4, 7, kBackward, kSecond, true)};
  EXPECT_FALSE(look_on(detector, world, 3 * kSecond, 5 * kSecond));
  const auto fault = look_on(detector, world, 5 * kSecond, 6 * kSecond);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->rank, 3);
  EXPECT_EQ(fault->place, "1F3 of step 3");
  EXPECT_THAT(to_string(*fault), HasSubstr("rank 3: 1F3 of step 3: has not ended for 3.1 s, "
                                           "expected at most 2.0 s"));
}

TEST(StallDetector, NamesTheLongestOfSeveralThatWork) {
  StallDetector detector({.fixed = Seconds(1.0)});
  const std::vector<RankActivity> world = {in_action(0, 5, kBackward, kSecond, false),
                                           in_action(1, 9, kLateForward, kSecond / 2, false)};
  const auto fault = look_on(detector, world, 2 * kSecond, 4 * kSecond);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->rank, 1);
}

TEST(StallDetector, SaysWhereAllWaitForOneAnother) {
  StallDetector detector({.fixed = Seconds(1.0)});
  const std::vector<RankActivity> world = {in_action(0, 5, kBackward, 2 * kSecond, true),
                                           in_action(1, 9, kLateForward, kSecond, true)};
  const auto fault = look_on(detector, world, 2 * kSecond, 4 * kSecond);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->rank, 1);
  EXPECT_THAT(fault->what, HasSubstr("all ranks wait for one another"));
}

// A rank of which every action takes nearly its deadline, for ever.
TEST(StallDetector, LetsASlowRankGoOn) {
  StallDetector detector({.fixed = Seconds(2.0)});
  for (std::int64_t action = 0; action < 50; ++action) {
    const std::int64_t start = (10 + 19 * action) * kSecond / 10;
    const std::vector<RankActivity> world = {in_action(0, 5, kBackward, kSecond, true),
                                             in_action(1, 10 + action, kLateForward, start, false)};
    EXPECT_FALSE(look_on(detector, world, start, start + 18 * kSecond / 10)) << action;
  }
}

TEST(StallDetector, TakesTheLongestDeadlineOfWhatIsUnderWay) {
  DeadlineRule rule{.least = Seconds(1.0), .factor = 10.0};
  rule.predicted = {{{ActionKind::kForward, 1}, Seconds(0.5)},
                    {{ActionKind::kBackward, 0}, Seconds(100.0)}};
  StallDetector detector(rule);
  const std::vector<RankActivity> world = {in_action(0, 5, kBackward, kSecond, true),
                                           in_action(1, 9, kLateForward, kSecond, false)};
  // The limit is that of the rank that works, because a rank that waits may be in a long action.
  EXPECT_EQ(detector.limit(world).value(), 5.0);
  EXPECT_TRUE(look_on(detector, world, kSecond, 7 * kSecond));
}

// The process was stopped, as by ^Z, or the machine was: nobody hangs.
TEST(StallDetector, DoesNotCountTimeInWhichNobodyLooked) {
  StallDetector detector({.fixed = Seconds(2.0)});
  const std::vector<RankActivity> world = {in_action(0, 5, kLateForward, kSecond, false)};
  EXPECT_FALSE(look_on(detector, world, kSecond, 2 * kSecond));
  EXPECT_FALSE(detector.look(1000 * kSecond, world));
  EXPECT_FALSE(detector.look(1000 * kSecond + kSecond / 10, world));
  EXPECT_TRUE(look_on(detector, world, 1000 * kSecond, 1003 * kSecond));
}

TEST(StallDetector, IsSilentWhereThereIsNoDeadline) {
  StallDetector detector({.is_on = false});
  EXPECT_FALSE(
      look_on(detector, {in_action(0, 5, kLateForward, kSecond, false)}, kSecond, 1000 * kSecond));
}

/// An event that can be waited for: blocks until happened() was called.
class Occasion {
 public:
  void happened() {
    const std::lock_guard lock(mutex_);
    has_happened_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [this] { return has_happened_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_happened_ = false;
};

TEST(Watchdog, EndsWaitsAndGivesUpOnARankThatHangs) {
  ActionLog log(0, 2);
  log.begin(1, Lane::kCompute, 0, kLateForward);
  Occasion given_up;
  Watchdog watchdog(
      log, {.deadlines = {.fixed = Seconds(0.1)}, .give_up = [&] { given_up.happened(); }});
  ThreadWorld world(2, CollectiveAlgorithm::kRing);
  CpuBackend backend;
  const auto communicator = world.communicator(0, backend);
  watchdog.add(*communicator);
  log.begin(0, Lane::kCompute, 0, kBackward);
  const Tensor buffer(backend, DataType::kFloat32, 4);
  const ActionLog::Wait wait(log);
  EXPECT_THROW(communicator->wait(communicator->receive(buffer, 1)), Aborted);
  watchdog.remove(*communicator);
  ASSERT_TRUE(watchdog.fault());
  EXPECT_EQ(watchdog.fault()->rank, 1);
  EXPECT_EQ(watchdog.interrupt(), 0);
  EXPECT_TRUE(given_up.wait());
}

TEST(Watchdog, EndsARunAtASignal) {
  ActionLog log(0, 1);
  std::atomic<int> signal = 0;
  Watchdog watchdog(log, {.interrupt = &signal});
  ThreadWorld world(2, CollectiveAlgorithm::kRing);
  CpuBackend backend;
  const auto communicator = world.communicator(0, backend);
  watchdog.add(*communicator);
  const Tensor buffer(backend, DataType::kFloat32, 4);
  const Request request = communicator->receive(buffer, 1);
  EXPECT_FALSE(watchdog.is_stopping());
  signal = 2;
  EXPECT_THROW(communicator->wait(request), Aborted);
  EXPECT_TRUE(watchdog.is_stopping());
  EXPECT_EQ(watchdog.interrupt(), 2);
  EXPECT_FALSE(watchdog.fault());
  watchdog.remove(*communicator);
}

TEST(Watchdog, KeepsTheFirstFaultAndSpreadsIt) {
  ActionLog log(0, 1);
  Occasion told;
  RunFault spread;
  Watchdog watchdog(log, {.spread = [&](const RunFault& fault) {
                      spread = fault;
                      told.happened();
                    }});
  watchdog.report({.rank = 4, .what = "first"});
  watchdog.report({.rank = 5, .what = "second"});
  ASSERT_TRUE(told.wait());
  EXPECT_EQ(watchdog.fault()->rank, 4);
  EXPECT_EQ(spread.rank, 4);
}

// The process that found a fault tells of it. What another process tells everybody is not told
// again.
TEST(Watchdog, SpreadsItsSignalAndNotWhatIsToldElsewhere) {
  ActionLog log(6, 1);
  std::atomic<int> signal = 0;
  Occasion told;
  RunFault spread;
  {
    Watchdog watchdog(log, {.interrupt = &signal, .spread = [&](const RunFault& fault) {
                              spread = fault;
                              told.happened();
                            }});
    signal = 15;
    ASSERT_TRUE(told.wait());
    EXPECT_EQ(spread.rank, 6);
    EXPECT_EQ(spread.signal, 15);
    EXPECT_EQ(spread.what, "ended by signal 15");
  }
  int num_spread = 0;
  Occasion given_up;
  {
    const Watchdog watchdog(log, {.remote_fault =
                                      [] {
                                        return std::optional(RunFault{
                                            .rank = 7, .what = "died", .is_told_elsewhere = true});
                                      },
                                  .spread = [&](const RunFault&) { ++num_spread; },
                                  .give_up = [&] { given_up.happened(); }});
    ASSERT_TRUE(given_up.wait());
  }
  EXPECT_EQ(num_spread, 0);
}

TEST(Watchdog, EndsAtAFaultOfAnotherProcess) {
  ActionLog log(0, 1);
  std::atomic<bool> is_there = false;
  Occasion given_up;
  Watchdog watchdog(log, {.remote_fault = [&]() -> std::optional<RunFault> {
                            return is_there ? std::optional(RunFault{.rank = 7, .what = "died"})
                                            : std::nullopt;
                          },
                          .give_up = [&] { given_up.happened(); }});
  is_there = true;
  ASSERT_TRUE(given_up.wait());
  EXPECT_EQ(to_string(*watchdog.fault()), "rank 7: died");
}

// A launcher that sees a rank die ends the others by a signal, which may come before the word of
// the death.
TEST(Watchdog, PrefersAFaultOfAnotherProcessToASignal) {
  ActionLog log(0, 1);
  std::atomic<int> signal = 0;
  Occasion given_up;
  Watchdog watchdog(log, {.interrupt = &signal,
                          .remote_fault = [&]() -> std::optional<RunFault> {
                            return signal.exchange(15) == 15
                                       ? std::optional(RunFault{.rank = 7, .what = "died"})
                                       : std::nullopt;
                          },
                          .give_up = [&] { given_up.happened(); }});
  ASSERT_TRUE(given_up.wait());
  ASSERT_TRUE(watchdog.fault());
  EXPECT_EQ(watchdog.fault()->rank, 7);
  EXPECT_EQ(watchdog.interrupt(), 0);
}

TEST(Watchdog, EndsAtASignalWhereNoFaultComes) {
  ActionLog log(0, 1);
  std::atomic<int> signal = 15;
  Occasion given_up;
  const Watchdog watchdog(log, {.interrupt = &signal,
                                .remote_fault = [] { return std::optional<RunFault>(); },
                                .give_up = [&] { given_up.happened(); }});
  ASSERT_TRUE(given_up.wait());
  EXPECT_EQ(watchdog.interrupt(), 15);
  EXPECT_FALSE(watchdog.fault());
}

}  // namespace
}  // namespace ptdp::testing
