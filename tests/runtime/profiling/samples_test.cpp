// Tests of how samples of a time are summarized.
#include "runtime/profiling/samples.h"

#include <gmock/gmock.h>

namespace ptdp {
namespace {

using testing::ElementsAre;

TEST(QuietTime, IsTheMedianOfTheFasterHalf) {
  EXPECT_EQ(quiet_time({3.0}), 3.0);
  EXPECT_EQ(quiet_time({9.0, 1.0, 2.0, 3.0, 100.0}), 2.0);
}

TEST(MiddleHalf, LeavesOutTheFastestAndTheSlowestQuarter) {
  EXPECT_THAT(middle_half({5.0}), ElementsAre(0));
  EXPECT_THAT(middle_half({9.0, 1.0, 2.0, 3.0, 100.0}), ElementsAre(2, 3, 0));
}

TEST(Spread, IsTheDistanceOfQuartilesOverTheMedian) {
  EXPECT_EQ(spread({1.0, 2.0, 3.0}), std::nullopt);
  EXPECT_DOUBLE_EQ(spread({1.0, 2.0, 4.0, 6.0, 50.0}).value(), 1.0);
}

// Without the fastest and the slowest, 2 and 4 are left; the upper one is the median.
TEST(Spread, IsKnownOfFourSamples) {
  EXPECT_DOUBLE_EQ(spread({50.0, 2.0, 1.0, 4.0}).value(), 0.5);
}

}  // namespace
}  // namespace ptdp
