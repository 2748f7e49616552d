// Tests of random numbers by counter, against known answers and statistics.
#include "kernels/counter_random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/kernels/philox_reference.h"

namespace ptdp {
namespace {

// The known answers of Random123 1.14 (tests/kat_vectors), "philox4x32 10". Only the first has a
// counter that fits 64 bits, so they prove the general form, and that proves the header's.
TEST(Philox, ReferenceGivesTheKnownAnswersOfRandom123) {
  constexpr std::uint32_t ones = 0xFFFFFFFFU;
  EXPECT_EQ(philox_reference({0, 0, 0, 0}, {0, 0}),
            (PhiloxWords{0x6627E8D5U, 0xE169C58DU, 0xBC57AC4CU, 0x9B00DBD8U}));
  EXPECT_EQ(philox_reference({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxWords{0x408F276DU, 0x41C83B0EU, 0xA20BC7C6U, 0x6D5451FDU}));
  EXPECT_EQ(philox_reference({0x243F6A88U, 0x85A308D3U, 0x13198A2EU, 0x03707344U},
                             {0xA4093822U, 0x299F31D0U}),
            (PhiloxWords{0xD16CFE09U, 0x94FDCCEBU, 0x5001E420U, 0x24126EA1U}));
}

TEST(Philox, GivesTheKnownAnswerForZeroKeyAndCounter) {
  EXPECT_EQ(philox(0, 0), (PhiloxWords{0x6627E8D5U, 0xE169C58DU, 0xBC57AC4CU, 0x9B00DBD8U}));
}

TEST(Philox, EqualsTheGeneralFormWithTheCounterInItsLowWords) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t key = random();
    const std::uint64_t counter = random();
    EXPECT_EQ(
        philox(key, counter),
        philox_reference(
            {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U), 0, 0},
            {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32U)}));
    EXPECT_EQ(random_word(key, counter), word_reference(key, counter));
  }
}

TEST(Uniform, LiesStrictlyBetweenZeroAndOne) {
  EXPECT_GT(uniform(0, 0), 0.0);
  EXPECT_LT(uniform(0xFFFFFFFFU, 0xFFFFFFFFU), 1.0);
  EXPECT_DOUBLE_EQ(uniform(0x80000000U, 0), 0.5 + 0x1p-53);
}

TEST(RandomNormal, HasTheMomentsOfANormalDistribution) {
  constexpr int count = 200'000;
  double sum = 0.0;
  double squares = 0.0;
  double fourths = 0.0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = random_normal(42, i);
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
  }
  // Five standard errors: 1/√N, √(2/N), √(96/N).
  const double error = 5.0 / std::sqrt(static_cast<double>(count));
  EXPECT_NEAR(sum / count, 0.0, error);
  EXPECT_NEAR(squares / count, 1.0, std::sqrt(2.0) * error);
  EXPECT_NEAR(fourths / count, 3.0, std::sqrt(96.0) * error);
}

TEST(DropoutThreshold, DropsNothingAtZeroAndHalfOfTheWordsAtOneHalf) {
  EXPECT_EQ(dropout_threshold(0.0), 0U);
  EXPECT_EQ(dropout_threshold(0.5), 0x80000000U);
}

TEST(Uniform, IsTheMiddleOfItsPart) {
  EXPECT_EQ(uniform(0, 0), 0x1p-53);
  EXPECT_EQ(uniform(0, 0xFFFU), 0x1p-53) << "52 bits count";
  EXPECT_EQ(uniform(0, 0x1000U), 0x1.8p-52);
  EXPECT_EQ(uniform(1, 0), 0x1p-32 + 0x1p-53);
  EXPECT_EQ(uniform(0xFFFFFFFFU, 0xFFFFFFFFU), 1.0 - 0x1p-53);
}

// The first two words of the known answer.
TEST(DerivedKey, IsMadeOfTheFirstTwoWordsOfItsNumber) {
  EXPECT_EQ(derived_key(0, 0), 0x6627E8D5E169C58DU);
  const PhiloxWords words = philox_reference({5, 0, 0, 0}, {7, 1});
  EXPECT_EQ(derived_key((std::uint64_t{1} << 32U) | 7U, 5),
            (std::uint64_t{words[0]} << 32U) | words[1]);
}

// Box and Muller's of two uniform numbers, each of two of an element's four words.
TEST(RandomNormal, IsThatOfTheElementsFourWords) {
  const auto part = [](std::uint32_t high, std::uint32_t low) {
    const std::uint64_t whole = (std::uint64_t{high} << 32U) + low;
    return (static_cast<double>(whole >> 12U) + 0.5) / 4503599627370496.0;
  };
  for (const std::uint32_t element : {0U, 1U, 12345U}) {
    const PhiloxWords words = philox_reference({element, 0, 0, 0}, {42, 0});
    const double radius = std::sqrt(-2.0 * std::log(part(words[0], words[1])));
    const double angle = 2.0 * std::acos(-1.0) * part(words[2], words[3]);
    EXPECT_NEAR(random_normal(42, element), radius * std::cos(angle), 1e-12) << element;
  }
}

// 2^32 / 10 = 429496729.6, of which the words from 0 on below it are dropped.
TEST(DropoutThreshold, IsTheShareOfAllWords) {
  EXPECT_EQ(dropout_threshold(0.1), 429496729U);
  EXPECT_EQ(dropout_threshold(0.99), 4252017623U);
}

}  // namespace
}  // namespace ptdp
