// Tests of durations, errors and shares as text.
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

TEST(Grouped, HasFiveDigitsInGroupsOfThree) {
  EXPECT_EQ(grouped(289657.3), "289,660");
  EXPECT_EQ(grouped(1219444.0), "1,219,400");
  EXPECT_EQ(grouped(61248.4), "61,248");
  EXPECT_EQ(grouped(999.6), "1,000");
  EXPECT_EQ(grouped(12.4), "12");
  EXPECT_EQ(grouped(0.0), "0");
  EXPECT_EQ(with_commas(3'501'056), "3,501,056");
  EXPECT_EQ(with_commas(-1'000), "-1,000");
  EXPECT_EQ(with_commas(999), "999");
}

TEST(ShortNumber, HasThreeDigitsAndAUnit) {
  EXPECT_EQ(short_number(15e12), "15 T");
  EXPECT_EQ(short_number(3.8092e6), "3.81 M");
  EXPECT_EQ(short_number(9.523e6), "9.52 M");
  EXPECT_EQ(short_number(450e9), "450 B");
  EXPECT_EQ(short_number(999.7e3), "1 M");
  EXPECT_EQ(short_number(1500.0), "1.5 K");
  EXPECT_EQ(short_number(12.34), "12.3");
}

TEST(Devices, AreCoresWhereACoreStandsForAGpu) {
  EXPECT_EQ(devices(8, {.num_multiprocessors = 108}), "8 GPUs");
  EXPECT_EQ(devices(1, {.num_multiprocessors = 108}), "1 GPU");
  EXPECT_EQ(devices(8, {.num_multiprocessors = 1}), "8 cores");
}

// A unit begins at 1 of it, but for hours and days, which begin at two.
TEST(Duration, ChangesItsUnitAtTheSameTimeAlways) {
  EXPECT_EQ(duration(Seconds(0.0)), "0 ms");
  EXPECT_EQ(duration(Seconds(0.9994)), "999.4 ms");
  EXPECT_EQ(duration(Seconds(1.0)), "1 s");
  EXPECT_EQ(duration(Seconds(7199.0)), "7199 s");
  EXPECT_EQ(duration(Seconds(7200.0)), "2 hours");
  EXPECT_EQ(duration(Seconds(47.5 * 3600.0)), "47.5 hours");
  EXPECT_EQ(duration(Seconds(48.0 * 3600.0)), "2 days");
}

TEST(Bytes, AreInPowersOfAThousand) {
  EXPECT_EQ(bytes(Bytes(4096.0)), "0.0041 MB");
  EXPECT_EQ(bytes(Bytes(998e6)), "998 MB");
  EXPECT_EQ(bytes(Bytes(1e9)), "1 GB");
  EXPECT_EQ(bytes(Bytes(2.345e11)), "234 GB");
  EXPECT_EQ(bytes(Bytes(1e12)), "1 TB");
}

TEST(BinarySize, IsInGibibytesOrMebibytes) {
  EXPECT_EQ(binary_size(Bytes(7212654592.0)), "6.72 GiB");
  EXPECT_EQ(binary_size(gibibytes(1234.5)), "1234.50 GiB");
  EXPECT_EQ(binary_size(gibibytes(0.1)), "0.10 GiB");
  EXPECT_EQ(binary_size(Bytes(44165632.0)), "42.12 MiB");
  EXPECT_EQ(binary_size(Bytes(8.0)), "under 0.01 MiB");
  EXPECT_EQ(binary_size(Bytes(0.0)), "0.00 MiB");
}

TEST(Rate, HasFourDigitsInTheUnitThatSuits) {
  EXPECT_EQ(rate(FlopsPerSecond(12.345e6)), "12.35 MFLOP/s");
  EXPECT_EQ(rate(FlopsPerSecond(1e9)), "1 GFLOP/s");
  EXPECT_EQ(rate(FlopsPerSecond(999.9e9)), "999.9 GFLOP/s");
  EXPECT_EQ(rate(FlopsPerSecond(163.24e12)), "163.2 TFLOP/s");
}

TEST(Percent, IsOfAFraction) {
  EXPECT_EQ(percent(0.1234), "12.3 %");
  EXPECT_EQ(signed_percent(0.1234), "+12.3 %");
  EXPECT_EQ(signed_percent(-0.5), "-50.0 %");
  EXPECT_EQ(signed_percent(-0.0004), "0.0 %");
  EXPECT_EQ(signed_percent(0.0004), "0.0 %");
}

// 3 s predicted for 4 s are a quarter too few; of what was not measured there is no error.
TEST(ErrorOf, IsThePredictionsAndNothingWhereOneIsMissing) {
  EXPECT_EQ(error_of(Seconds(3.0), Seconds(4.0)), "-25.0 %");
  EXPECT_EQ(error_of(Seconds(5.0), Seconds(4.0)), "+25.0 %");
  EXPECT_EQ(error_of(Seconds(0.0), Seconds(4.0)), "");
  EXPECT_EQ(error_of(Seconds(4.0), Seconds(0.0)), "");
}

TEST(Rows, HaveTheirValuesBeneathEachOther) {
  EXPECT_EQ(row("GPUs", "8 used"), "  GPUs                   8 used\n");
  // A third of 30 characters; the whole is all of them.
  EXPECT_EQ(share_row("bubble", Seconds(0.5), Seconds(1.5)),
            "  bubble                     500 ms  33.3 %  ##########\n");
  EXPECT_EQ(share_row("all", Seconds(1.5), Seconds(1.5)),
            "  all                         1.5 s 100.0 %  " + std::string(30, '#') + "\n");
}

TEST(ZeroRemark, IsOfShardsThatAPipelineDoesNotKeep) {
  const auto is_remarked = [](int pp, int stage) {
    return !zero_remark({.pp = pp, .dp = 2, .zero_stage = stage}).empty();
  };
  for (const int stage : {0, 1, 2, 3}) {
    EXPECT_FALSE(is_remarked(1, stage)) << stage;
    EXPECT_EQ(is_remarked(2, stage), stage >= 2) << stage;
  }
}

TEST(Paragraph, KeepsWordsAndBreaksLinesBeforeTheWidth) {
  EXPECT_EQ(paragraph("one two three", "  ", 9), "  one two\n  three\n");
  EXPECT_EQ(paragraph("one two three", "  ", 8), "  one\n  two\n  three\n");
  EXPECT_EQ(paragraph("a-word-that-is-too-long", "", 5), "a-word-that-is-too-long\n");
  EXPECT_EQ(paragraph("", "  "), "");
}

}  // namespace
}  // namespace ptdp
