// Tests of data types, and of slices of buffers.
#include "kernels/data_type.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace ptdp {
namespace {

TEST(DataType, HasTheSizeAndTheNameAndTheSumsOfItsFormat) {
  struct Row {
    DataType type;
    std::int64_t bytes;
    const char* name;
    DataType accumulator;
  };
  for (const Row& row : {Row{DataType::kFloat64, 8, "f64", DataType::kFloat64},
                         Row{DataType::kFloat32, 4, "f32", DataType::kFloat32},
                         Row{DataType::kBFloat16, 2, "bf16", DataType::kFloat32},
                         Row{DataType::kFloat16, 2, "fp16", DataType::kFloat32},
                         Row{DataType::kInt32, 4, "i32", DataType::kFloat32}}) {
    EXPECT_EQ(bytes_of(row.type), row.bytes) << row.name;
    EXPECT_EQ(name_of(row.type), row.name);
    EXPECT_EQ(accumulator_of(row.type), row.accumulator) << row.name;
  }
}

TEST(Buffer, IsCutByElements) {
  std::array<std::uint16_t, 10> memory{};
  const Buffer all{.data = memory.data(), .size = 10, .type = DataType::kBFloat16};
  EXPECT_EQ(all.bytes(), 20);
  EXPECT_FALSE(all.empty());
  const Buffer part = all.slice(3, 4);
  EXPECT_EQ(part.data, memory.data() + 3);
  EXPECT_EQ(part.size, 4);
  EXPECT_EQ(part.type, DataType::kBFloat16);
  EXPECT_EQ(elements<std::uint16_t>(part), memory.data() + 3);
  EXPECT_EQ(all.slice(0, 10).data, all.data);
  EXPECT_TRUE(all.slice(10, 0).empty());
  EXPECT_TRUE(Buffer{}.empty());
  EXPECT_EQ(Buffer{}.bytes(), 0);
}

}  // namespace
}  // namespace ptdp
