// Tests of quantities with units.
#include "cost_model/units.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace ptdp {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};
template <class A, class B>
concept Divisible = requires(A a, B b) {
  a / b;
};

TEST(Quantity, IsZeroUntilGivenAValue) {
  EXPECT_EQ(Seconds().value(), 0.0);
}

TEST(Quantity, AddsOnlyToItsOwnKind) {
  EXPECT_TRUE((Addable<Bytes, Bytes>));
  EXPECT_FALSE((Addable<Bytes, Seconds>));
  EXPECT_FALSE((Addable<Bytes, double>));
}

TEST(Quantity, ComparesOnlyWithItsOwnKind) {
  EXPECT_TRUE((Comparable<Bytes, Bytes>));
  EXPECT_FALSE((Comparable<Bytes, Flops>));
  EXPECT_FALSE((Comparable<Bytes, double>));
}

TEST(Quantity, DividesOnlyWhereTheResultHasAUnit) {
  EXPECT_TRUE((Divisible<Bytes, BytesPerSecond>));
  EXPECT_FALSE((Divisible<Bytes, FlopsPerSecond>));
  EXPECT_FALSE((Divisible<Seconds, Bytes>));
}

TEST(Quantity, IsNotMadeFromANumberInSilence) {
  EXPECT_FALSE((std::is_convertible_v<double, Seconds>));
  EXPECT_FALSE((std::is_convertible_v<Seconds, double>));
}

TEST(Quantity, CalculatesLikeANumber) {
  Bytes sum(2.0);
  sum += Bytes(3.0);
  EXPECT_EQ(sum, Bytes(5.0));
  sum -= Bytes(1.0);
  EXPECT_EQ(sum, Bytes(4.0));
  EXPECT_EQ(sum + Bytes(0.5), Bytes(4.5));
  EXPECT_EQ(sum - Bytes(0.5), Bytes(3.5));
  EXPECT_EQ(sum * 2.0, Bytes(8.0));
  EXPECT_EQ(2.0 * sum, Bytes(8.0));
  EXPECT_EQ(sum / 2.0, Bytes(2.0));
}

TEST(Quantity, OfOneKindHasAPlainNumberAsRatio) {
  EXPECT_EQ(Bytes(6.0) / Bytes(4.0), 1.5);
}

TEST(Quantity, IsOrderedByItsValue) {
  EXPECT_LT(Seconds(1.0), Seconds(2.0));
  EXPECT_GE(Seconds(2.0), Seconds(2.0));
}

// 6·N·D FLOPs of 1T parameters on 450 billion tokens: 2.7e24, beyond a 64-bit integer.
TEST(Quantity, HoldsTheWorkOfATrainingRun) {
  EXPECT_EQ((Flops(6.0 * 1e12) * 450e9).value(), 2.7e24);
}

TEST(Rate, TurnsASizeIntoATime) {
  EXPECT_EQ(Bytes(100.0) / BytesPerSecond(25.0), Seconds(4.0));
  EXPECT_EQ(Flops(100.0) / FlopsPerSecond(50.0), Seconds(2.0));
}

TEST(Rate, IsASizeOverATime) {
  EXPECT_EQ(Bytes(100.0) / Seconds(4.0), BytesPerSecond(25.0));
  EXPECT_EQ(Flops(100.0) / Seconds(4.0), FlopsPerSecond(25.0));
}

// The SI prefixes, and 80·2^30 = 85,899,345,920.
TEST(Unit, IsConvertedIntoBaseUnits) {
  EXPECT_DOUBLE_EQ(microseconds(3.4).value(), 0.0000034);
  EXPECT_DOUBLE_EQ(gibibytes(80.0).value(), 85899345920.0);
  EXPECT_DOUBLE_EQ(gigabytes_per_second(25.0).value(), 25000000000.0);
  EXPECT_DOUBLE_EQ(teraflops(312.0).value(), 312000000000000.0);
  EXPECT_DOUBLE_EQ(kPeta, 1000.0 * kTera);
}

}  // namespace
}  // namespace ptdp
