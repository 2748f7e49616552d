#include "planner/formatting.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cost_model/text/object_writer.h"

namespace ptdp {
namespace {

// Whole nanoseconds halfway between two roundings, as sums of others come out: a bit off. A file
// holds 15 digits of them, and a report that is read from it says the same.
TEST(Duration, IsThatOfTheFile) {
  for (int tenths_of_microseconds = 10'005; tenths_of_microseconds < 100'000;
       tenths_of_microseconds += 10) {
    const double seconds = tenths_of_microseconds * 1e-8;
    for (const double value : {std::nextafter(seconds, 0.0), std::nextafter(seconds, 1.0)}) {
      EXPECT_EQ(duration(Seconds(value)), duration(Seconds(as_written(value)))) << seconds;
    }
  }
}

TEST(Duration, HasFourDigits) {
  EXPECT_EQ(duration(Seconds(1.23456e-4)), "0.1235 ms");
  EXPECT_EQ(duration(Seconds(12.3456)), "12.35 s");
  EXPECT_EQ(duration(Seconds(3.0 * 3600.0)), "3 hours");
  EXPECT_EQ(duration(Seconds(36.0 * 86400.0)), "36 days");
}

}  // namespace
}  // namespace ptdp
