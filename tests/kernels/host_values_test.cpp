// The tests' own conversions, against bit patterns of IEEE 754 known by hand.
#include "tests/kernels/host_values.h"

#include <gtest/gtest.h>

#include <limits>

namespace ptdp {
namespace {

TEST(HostValues, RoundAndEncodeByTheDefinitionOfTheFormats) {
  struct Row {
    DataType type;
    double value;
    double nearest;
    unsigned bits;
  };
  constexpr auto b = DataType::kBFloat16;
  constexpr auto h = DataType::kFloat16;
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Row row : {
           Row{b, 1.0, 1.0, 0x3F80},
           Row{b, -2.0, -2.0, 0xC000},
           Row{b, 1.0 + 0x1p-8, 1.0, 0x3F80},           // a tie, to even
           Row{b, 1.0 + 0x3p-8, 1.0 + 0x1p-6, 0x3F82},  // a tie, to even
           Row{b, 0x1p-133, 0x1p-133, 0x0001},          // smallest subnormal
           Row{b, 0x1.FFp127, infinity, 0x7F80},        // beyond the largest
           Row{h, 1.0, 1.0, 0x3C00},
           Row{h, 65504.0, 65504.0, 0x7BFF},
           Row{h, 65519.0, 65504.0, 0x7BFF},
           Row{h, 65520.0, infinity, 0x7C00},
           Row{h, 0x1p-24, 0x1p-24, 0x0001},
           Row{h, 0x1p-25, 0.0, 0x0000},
           Row{h, 0x1.8p-24, 0x1p-23, 0x0002},
           Row{h, 0x1p-14, 0x1p-14, 0x0400},
       }) {
    EXPECT_EQ(rounded(row.value, row.type), row.nearest) << row.value;
    EXPECT_EQ(half_bits(row.nearest, row.type), row.bits) << row.value;
    EXPECT_EQ(half_value(static_cast<std::uint16_t>(row.bits), row.type), row.nearest) << row.value;
  }
}

}  // namespace
}  // namespace ptdp
