// Tests of divisors, and of ranges of integers as text.
#include "cost_model/text/integer_ranges.h"

#include <gmock/gmock.h>

#include "cost_model/error.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

IntegerRanges parse_ranges(const char* text) {
  return IntegerRanges::parse(text, 1, 1000, "--tp");
}

TEST(Divisors, AreAllInOrder) {
  EXPECT_THAT(divisors(1), testing::ElementsAre(1));
  EXPECT_THAT(divisors(36), testing::ElementsAre(1, 2, 3, 4, 6, 9, 12, 18, 36));
  EXPECT_THAT(divisors(999'999'937), testing::ElementsAre(1, 999'999'937));  // a prime
}

TEST(IntegerRanges, ReadNumbersListsAndRanges) {
  EXPECT_THAT(parse_ranges("8").values(100), ElementsAre(8));
  EXPECT_THAT(parse_ranges("8,4").values(100), ElementsAre(4, 8));
  EXPECT_THAT(parse_ranges("2:5").values(100), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(parse_ranges("2:4,3,64").values(100), ElementsAre(2, 3, 4, 64));
}

TEST(IntegerRanges, ClipRangesToTheLimitButNotSingleNumbers) {
  EXPECT_THAT(parse_ranges("3:900").values(5), ElementsAre(3, 4, 5));
  EXPECT_THAT(parse_ranges("900").values(5), ElementsAre(900));
}

TEST(IntegerRanges, ContainEverythingByDefault) {
  EXPECT_TRUE(IntegerRanges().is_any());
  EXPECT_TRUE(IntegerRanges().contains(123456));
  EXPECT_THAT(IntegerRanges().values(3), ElementsAre(1, 2, 3));
}

TEST(IntegerRanges, ContainWhatWasTyped) {
  EXPECT_TRUE(parse_ranges("2:4,8").contains(3));
  EXPECT_TRUE(parse_ranges("2:4,8").contains(8));
  EXPECT_FALSE(parse_ranges("2:4,8").contains(5));
}

TEST(IntegerRanges, RefuseWhatIsNoSetOfNumbers) {
  for (const char* text : {"", ",", "4,", "a", "4:", ":4", "5:3", "0", "-1", "1001", "4-8", " 4",
                           "1:2:3", "4 8", "0x10", "1e3"}) {
    try {
      (void)parse_ranges(text);
      ADD_FAILURE() << '"' << text << "\" was accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("--tp")) << text;
      EXPECT_EQ(error.status(), ExitStatus::kBadInput) << text;
    }
  }
}

TEST(IntegerRanges, BeginAtALeastNumberOrAreNone) {
  const auto from = [](const IntegerRanges& ranges, std::int64_t low) {
    const auto rest = ranges.at_least(low);
    return rest ? rest->text() : std::string("none");
  };
  EXPECT_EQ(from(parse_ranges("1:4,8,2"), 1), "1:4,8,2");
  EXPECT_EQ(from(parse_ranges("1:4,8,2"), 3), "3:4,8");
  EXPECT_EQ(from(parse_ranges("1:4,8,2"), 4), "4,8");
  EXPECT_EQ(from(parse_ranges("1:4,8,2"), 5), "8");
  EXPECT_EQ(from(parse_ranges("1:4,8,2"), 8), "8");
  EXPECT_EQ(from(parse_ranges("1:4,8,2"), 9), "none");
  const auto all = IntegerRanges().at_least(2);
  ASSERT_TRUE(all.has_value());
  EXPECT_FALSE(all->contains(1));
  EXPECT_TRUE(all->contains(2));
  EXPECT_TRUE(all->contains(1'000'000'000));
}

TEST(IntegerRanges, KnowTheirSmallestAndWhatWasTypedAlone) {
  EXPECT_EQ(parse_ranges("8,2:3,64").smallest(), 2);
  EXPECT_EQ(parse_ranges("8,9:30").smallest(), 8);
  EXPECT_EQ(IntegerRanges().smallest(), 1);
  EXPECT_THAT(parse_ranges("8,2:3,64").numbers(), ElementsAre(8, 64));
  EXPECT_THAT(IntegerRanges().numbers(), ElementsAre());
  EXPECT_EQ(parse_ranges("8,2:3,5:5").text(), "8,2:3,5");
  EXPECT_EQ(IntegerRanges().text(), "");
}

}  // namespace
}  // namespace ptdp
