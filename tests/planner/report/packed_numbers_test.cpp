// Tests of packing numbers: zlib and a decoder of the test's own get back what went in.
#include "planner/report/packed_numbers.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <cstddef>
#include <string_view>

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::MatchesRegex;

using Column = std::vector<std::int32_t>;
using Columns = std::vector<Column>;

std::vector<unsigned char> from_base64(const std::string& text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes;
  unsigned bits = 0;
  int known = 0;
  for (const char digit : text) {
    if (digit == '=') {
      break;
    }
    bits = bits << 6 | static_cast<unsigned>(digits.find(digit));
    known += 6;
    if (known >= 8) {
      known -= 8;
      bytes.push_back(static_cast<unsigned char>(bits >> known & 0xff));
    }
  }
  return bytes;
}

Column unpacked(const std::string& text, std::size_t size) {
  const std::vector<unsigned char> packed = from_base64(text);
  std::vector<unsigned char> bytes(4 * size + 1);
  uLongf length = bytes.size();
  EXPECT_EQ(::uncompress(bytes.data(), &length, packed.data(), packed.size()), Z_OK);
  EXPECT_EQ(length, 4 * size);
  Column numbers;
  for (std::size_t i = 0; i + 3 < length; i += 4) {
    numbers.push_back(static_cast<std::int32_t>(bytes[i] | bytes[i + 1] << 8 | bytes[i + 2] << 16 |
                                                static_cast<std::uint32_t>(bytes[i + 3]) << 24));
  }
  return numbers;
}

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
