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
  EXPECT_EQ(spread({1.0, 2.0, 3.0}), 0.0);
  EXPECT_DOUBLE_EQ(spread({1.0, 2.0, 4.0, 6.0, 50.0}), 1.0);
}

}  // namespace
}  // namespace ptdp
