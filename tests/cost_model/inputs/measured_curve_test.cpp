// Tests of measured curves of collectives: points, interpolation, growth and refusals.
#include "cost_model/inputs/measured_curve.h"

#include <gmock/gmock.h>

#include <cmath>

#include "cost_model/inputs/catalog/catalog.h"
#include "tests/support/round_trip.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

MeasuredPoint point(double bytes, double us) {
  return {.size = Bytes(bytes), .time = microseconds(us)};
}

/// Returns a curve of 1 MB in 100 us, 4 MB in 200 us and 16 MB in 800 us.
MeasuredCurve curve() {
  return {{point(1e6, 100.0), point(4e6, 200.0), point(16e6, 800.0)}, "test"};
}

double microseconds_at(double bytes) {
  return curve().time(Bytes(bytes)).value() / kMicro;
}

std::string refusal_of_curve(const std::vector<MeasuredPoint>& points) {
  return message_of([&] { return MeasuredCurve(points, "c.json: points"); });
}

TEST(MeasuredCurve, IsExactAtItsPoints) {
  EXPECT_DOUBLE_EQ(microseconds_at(1e6), 100.0);
  EXPECT_DOUBLE_EQ(microseconds_at(4e6), 200.0);
  EXPECT_DOUBLE_EQ(microseconds_at(16e6), 800.0);
}

// Half-way in the logarithm of the size is half-way in that of the time: 100·sqrt(2) us, and
// 200·sqrt(4) us.
TEST(MeasuredCurve, InterpolatesInTheLogarithms) {
  EXPECT_NEAR(microseconds_at(2e6), 141.42135623730951, 1e-9);
  EXPECT_NEAR(microseconds_at(8e6), 400.0, 1e-9);
}

TEST(MeasuredCurve, IsFlatBelowItsFirstPoint) {
  EXPECT_DOUBLE_EQ(microseconds_at(1.0), 100.0);
  EXPECT_DOUBLE_EQ(microseconds_at(0.0), 100.0);
}

// Ten times 16 MB.
TEST(MeasuredCurve, GrowsWithTheSizeBeyondItsLastPoint) {
  EXPECT_NEAR(microseconds_at(160e6), 8000.0, 1e-9);
}

TEST(MeasuredCurve, CoversWhatLiesBetweenItsPoints) {
  EXPECT_FALSE(curve().covers(Bytes(1e6 - 1.0)));
  EXPECT_TRUE(curve().covers(Bytes(1e6)));
  EXPECT_TRUE(curve().covers(Bytes(5e6)));
  EXPECT_TRUE(curve().covers(Bytes(16e6)));
  EXPECT_FALSE(curve().covers(Bytes(16e6 + 1.0)));
}

TEST(MeasuredCurve, WithoutPointsCoversNothing) {
  EXPECT_TRUE(MeasuredCurve().empty());
  EXPECT_FALSE(MeasuredCurve().covers(Bytes(1.0)));
  EXPECT_FALSE(curve().empty());
}

TEST(MeasuredCurve, NeverFallsBetweenPointsThatGrow) {
  for (const AllReduceCurve& shipped : find_all_reduce_curves("a100-nvswitch")) {
    Seconds before;
    for (int step = 0; step < 360; ++step) {
      const double bytes = 1e5 * std::pow(1.03, step);  // up to 4 GB
      const Seconds time = shipped.curve.time(Bytes(bytes));
      EXPECT_GE(time, before) << shipped.ranks << " ranks, " << bytes << " bytes";
      before = time;
    }
  }
}

TEST(MeasuredCurve, NeedsTwoPoints) {
  EXPECT_EQ(refusal_of_curve({}), "c.json: points: expected at least two points, got 0");
  EXPECT_EQ(refusal_of_curve({point(1e6, 1.0)}),
            "c.json: points: expected at least two points, got 1");
}

TEST(MeasuredCurve, RefusesSizesThatDoNotGrow) {
  EXPECT_EQ(refusal_of_curve({point(2000.0, 100.0), point(2000.0, 120.0)}),
            "c.json: points: expected growing sizes: 2000 bytes in 100 us, then 2000 bytes in 120 "
            "us");
  EXPECT_THAT(refusal_of_curve({point(1000.0, 1.0), point(2000.0, 2.0), point(1500.0, 3.0)}),
              HasSubstr("expected growing sizes: 2000 bytes in 2 us, then 1500 bytes"));
}

TEST(MeasuredCurve, RefusesAGap) {
  EXPECT_EQ(refusal_of_curve({point(1000.0, 100.0), point(16000.0, 100.0)}), "nothing was thrown");
  EXPECT_EQ(refusal_of_curve({point(1000.0, 100.0), point(16001.0, 100.0)}),
            "c.json: points: a gap of more than a factor of 16 between sizes: 1000 bytes in 100 "
            "us, then 16001 bytes in 100 us");
}

TEST(MeasuredCurve, RefusesALargerMessageThatIsFaster) {
  EXPECT_EQ(refusal_of_curve({point(1000.0, 100.0), point(2000.0, 91.0)}), "nothing was thrown");
  EXPECT_EQ(refusal_of_curve({point(1000.0, 100.0), point(2000.0, 89.0)}),
            "c.json: points: the larger message is faster: 1000 bytes in 100 us, then 2000 bytes "
            "in 89 us");
}

TEST(MeasuredCurve, RefusesAnOutlier) {
  EXPECT_EQ(refusal_of_curve({point(1000.0, 100.0), point(2000.0, 799.0)}), "nothing was thrown");
  EXPECT_EQ(refusal_of_curve({point(1000.0, 100.0), point(2000.0, 801.0)}),
            "c.json: points: an outlier: the time grows far faster than the size: 1000 bytes in "
            "100 us, then 2000 bytes in 801 us");
}

// The refused sizes are shown with all digits, so that they can be found in the file.
TEST(MeasuredCurve, ShowsAllDigitsOfTheSizesItRefuses) {
  EXPECT_THAT(refusal_of_curve({point(1048577.0, 44.21), point(1048576.0, 53.43)}),
              HasSubstr("1048577 bytes in 44.21 us, then 1048576 bytes in 53.43 us"));
}

TEST(MeasuredPointJson, ReadsBackAsItWas) {
  const std::string text = dump(point(1048576.0, 44.21));
  EXPECT_EQ(text, "{\n  \"bytes\": 1048576.0,\n  \"time_us\": 44.21\n}\n");
  EXPECT_EQ(parse<MeasuredPoint>(text), point(1048576.0, 44.21));
}

TEST(MeasuredPointJson, RefusesNothingInNoTime) {
  EXPECT_EQ(message_of([] { return parse<MeasuredPoint>(R"({"bytes": 0, "time_us": 1})"); }),
            "test.json: bytes: expected a number from 1.0 to 1e+15, got 0");
  EXPECT_EQ(message_of([] { return parse<MeasuredPoint>(R"({"bytes": 1, "time_us": 0})"); }),
            "test.json: time_us: expected a number from 0.001 to 1000000000000.0, got 0");
}

}  // namespace
}  // namespace ptdp
