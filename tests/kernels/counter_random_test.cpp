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

}  // namespace
}  // namespace ptdp
