// Tests of packing numbers: zlib and a decoder of the test's own get back what went in.
#include "planner/report/packed_numbers.h"

#include <gmock/gmock.h>

#include "tests/planner/report/unpacked_numbers.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;

using Column = std::vector<std::int32_t>;
using Columns = std::vector<Column>;

TEST(PackedNumbers, AreUnpackedColumnAfterColumn) {
  EXPECT_THAT(unpacked(packed_numbers(Columns{{1, -1, 256}, {}, {2147483647, -2147483647 - 1}}), 5),
              ElementsAre(1, -1, 256, 2147483647, -2147483647 - 1));
}

TEST(PackedNumbers, AreUnpackedWhateverIsLeftOfThreeBytes) {
  for (std::int32_t size = 0; size < 12; ++size) {
    Column numbers;
    for (std::int32_t i = 0; i < size; ++i) {
      numbers.push_back(i * 178956971);
    }
    const std::string text = packed_numbers(Columns{numbers});
    EXPECT_EQ(text.size() % 4, 0U);
    EXPECT_THAT(text, MatchesRegex("[A-Za-z0-9+/]+={0,2}"));
    EXPECT_EQ(unpacked(text, numbers.size()), numbers);
  }
}

TEST(PackedNumbers, TakeLittleSpaceWhereTheyRepeat) {
  EXPECT_LT(packed_numbers(Columns{Column(65536, 1234567)}).size(), 2000U);
}

}  // namespace
}  // namespace ptdp
