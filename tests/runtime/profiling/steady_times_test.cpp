// Tests of measurements that are repeated until none contradicts another.
#include "runtime/profiling/steady_times.h"

#include <gmock/gmock.h>

#include "cost_model/error.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

OperationKey copy_of(double width) {
  return {DeviceOperation::kCopy, {1.0, width, 1.0}};
}

/// Returns copies that take 1 ns an element.
OperationTimes copies() {
  OperationTimes times;
  for (const double width : {1e3, 4e3, 16e3, 64e3, 256e3}) {
    times[copy_of(width)] = 1e-9 * width;
  }
  return times;
}

TEST(SteadyTimes, AreMeasuredOnceWhereNoneContradictsAnother) {
  const SteadyTimes steady = steady_times(copies(), [](const auto&) {
    ADD_FAILURE() << "measured again";
    return OperationTimes();
  });
  EXPECT_EQ(steady.times, copies());
  EXPECT_THAT(steady.left_out, ElementsAre());
}

TEST(SteadyTimes, TakeWhatWasMeasuredAgain) {
  OperationTimes times = copies();
  times[copy_of(16e3)] *= 100.0;
  std::vector<OperationKey> asked;
  const SteadyTimes steady = steady_times(times, [&](const std::vector<OperationKey>& outliers) {
    asked.insert(asked.end(), outliers.begin(), outliers.end());
    return copies();
  });
  EXPECT_THAT(asked, ElementsAre(copy_of(16e3)));
  EXPECT_EQ(steady.times, copies());
  EXPECT_THAT(steady.left_out, ElementsAre());
}

TEST(SteadyTimes, LeaveOutWhatContradictsTheOthersThreeTimesMore) {
  OperationTimes times = copies();
  times[copy_of(16e3)] *= 100.0;
  int repeats = 0;
  const SteadyTimes steady = steady_times(times, [&](const auto&) {
    ++repeats;
    return times;
  });
  EXPECT_EQ(repeats, 3);
  OperationTimes expected = copies();
  expected.erase(copy_of(16e3));
  EXPECT_EQ(steady.times, expected);
  EXPECT_THAT(steady.left_out, ElementsAre(HasSubstr("copy: rows 1, width 16000, 1600")));
}

TEST(SteadyTimes, AreARuntimeFaultWhereFewerThanHalfAgree) {
  // Each falls by 10 where the width grows by 4, so that no two agree.
  OperationTimes times;
  double seconds = 1.0;
  for (const double width : {1e3, 4e3, 16e3, 64e3}) {
    times[copy_of(width)] = seconds;
    seconds /= 10.0;
  }
  try {
    static_cast<void>(steady_times(times, [&](const auto&) { return times; }));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::kRuntimeFault);
    EXPECT_THAT(error.what(), HasSubstr("measured copy: only 1 of 4 times agree"));
    EXPECT_THAT(error.what(), HasSubstr("too unsteady"));
  }
}

TEST(SteadyTimes, AreNoneWhereMeasuringAgainWasGivenUp) {
  OperationTimes times = copies();
  times[copy_of(16e3)] *= 100.0;
  EXPECT_TRUE(steady_times(times, [](const auto&) { return OperationTimes(); }).times.empty());
}

TEST(SteadyTimes, KeepAnOperationOfOneSize) {
  const OperationTimes times = {{copy_of(1e3), 1e-6}};
  EXPECT_EQ(steady_times(times, [&](const auto&) { return OperationTimes(times); }).times, times);
}

}  // namespace
}  // namespace ptdp
