// Tests of reading blocks of tensors: hand-made files, and one that the libraries wrote.
#include "runtime/weights/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "tests/runtime/weights/hand_made.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

/// Reads a block as elements of a C++ type that stands for `type`.
template <class Element>
std::vector<Element> read_block(const SafetensorsFile& file, const std::string& name,
                                const MatrixBlock& block, DataType type) {
  std::vector<Element> elements(static_cast<std::size_t>(block.rows * block.columns));
  file.read(name, block, buffer_of(elements, type));
  return elements;
}

/// Returns the elements of a matrix of 3 rows and 4 columns, of which (r, c) is (4r + c − 5)/8.
std::vector<double> values_of(const MatrixBlock& block) {
  std::vector<double> values;
  for (std::int64_t row = block.first_row; row < block.first_row + block.rows; ++row) {
    for (std::int64_t i = 0; i < block.columns; ++i) {
      values.push_back(static_cast<double>(4 * row + block.first_column + i - 5) / 8);
    }
  }
  return values;
}

TEST(SafetensorsFile, ReadsElementsOfAHandMadeFile) {
  const TemporaryDirectory directory;
  // bf16 of 1, −2, 0.5: the upper halves of 3F800000, C0000000 and 3F000000.
  const std::string header = R"({"w":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}})";
  const SafetensorsFile file(directory.file(
      "x.safetensors", safetensors_bytes(header, std::string("\x80\x3F\x00\xC0\x00\x3F", 6))));
  const MatrixBlock row = block_of(0, 1, 0, 3, 3);
  EXPECT_THAT(read_block<float>(file, "w", row, DataType::kFloat32), ElementsAre(1, -2, 0.5));
  EXPECT_THAT(read_block<double>(file, "w", row, DataType::kFloat64), ElementsAre(1, -2, 0.5));
  EXPECT_THAT(read_block<std::uint16_t>(file, "w", row, DataType::kBFloat16),
              ElementsAre(0x3F80, 0xC000, 0x3F00));
  EXPECT_THAT(read_block<std::uint16_t>(file, "w", row, DataType::kFloat16),
              ElementsAre(0x3C00, 0xC000, 0x3800));
}

// Every block of a matrix, from each of the four types that torch wrote: the values are exact in
// all.
TEST(SafetensorsFile, ReadsEveryBlockOfEveryType) {
  const SafetensorsFile file(golden_weights("model.safetensors"));
  for (const char* name : {"matrix.f64", "matrix.f32", "matrix.bf16", "matrix.f16"}) {
    for (std::int64_t cut = 0; cut < 4 * 4 * 5 * 5; ++cut) {
      const std::int64_t row = cut % 4;
      const std::int64_t rows = cut / 4 % 4;
      const std::int64_t column = cut / 16 % 5;
      const std::int64_t columns = cut / 80;
      if (row + rows > 3 || column + columns > 4) {
        continue;
      }
      const MatrixBlock block = block_of(row, rows, column, columns, 4);
      EXPECT_EQ(read_block<double>(file, name, block, DataType::kFloat64), values_of(block))
          << name << ' ' << cut;
    }
  }
}

TEST(SafetensorsFile, ReadsPartsOfOneDimensionAsARow) {
  const SafetensorsFile file(golden_weights("model.safetensors"));
  EXPECT_THAT(read_block<double>(file, "row", block_of(0, 1, 1, 3, 5), DataType::kFloat64),
              ElementsAre(-0.5, -0.375, -0.25));
  EXPECT_TRUE(
      read_block<double>(file, "none", block_of(0, 0, 0, 4, 4), DataType::kFloat64).empty());
}

// torch rounded the same numbers to each type: ties, subnormals, overflow, infinities.
TEST(SafetensorsFile, RoundsAsTorchDoes) {
  const SafetensorsFile file(golden_weights("model.safetensors"));
  const MatrixBlock row = block_of(0, 1, 0, 16, 16);
  const auto bf16 = read_block<std::uint16_t>(file, "hard.bf16", row, DataType::kBFloat16);
  const auto fp16 = read_block<std::uint16_t>(file, "hard.f16", row, DataType::kFloat16);
  for (const char* name : {"hard.f64", "hard.f32"}) {
    EXPECT_EQ(read_block<std::uint16_t>(file, name, row, DataType::kBFloat16), bf16) << name;
    EXPECT_EQ(read_block<std::uint16_t>(file, name, row, DataType::kFloat16), fp16) << name;
  }
  EXPECT_EQ(bf16[0], 0x3F80);  // 1 + 2^-8 is a tie, to even
  EXPECT_EQ(bf16[1], 0x3F82);  // 1 + 3·2^-8 likewise
  EXPECT_EQ(fp16[4], 0x7BFF);  // 65519 is the last that is finite
  EXPECT_EQ(fp16[5], 0x7C00);
}

// From f64 to bf16 once: by way of f32, 1 + 2^-8 + 2^-40 would become a tie, and 1.
TEST(SafetensorsFile, RoundsOnce) {
  const TemporaryDirectory directory;
  const std::string header = R"({"w":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})";
  const SafetensorsFile file(directory.file(
      "x.safetensors",
      safetensors_bytes(header, bytes_of_elements(std::vector{1 + 0x1p-8 + 0x1p-40}))));
  EXPECT_THAT(read_block<std::uint16_t>(file, "w", block_of(0, 1, 0, 1, 1), DataType::kBFloat16),
              ElementsAre(0x3F81));
}

TEST(SafetensorsFile, DescribesWhatTheLibraryWrote) {
  const SafetensorsFile file(golden_weights("model.safetensors"));
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
  EXPECT_EQ(file.header().tensors.size(), 16);
  EXPECT_EQ(file.tensor("gr\xC3\xB6\xC3\x9F"
                        "e")
                .type,
            "F32");
  EXPECT_EQ(file.tensor("eighths").type, "F8_E4M3");
  EXPECT_THAT(file.tensor("cube").shape, ElementsAre(2, 2, 2));
  file.require_shape("matrix.f16", std::vector<std::int64_t>{3, 4});
}

TEST(SafetensorsFile, RefusesTensorsThatItCannotRead) {
  const SafetensorsFile file(golden_weights("model.safetensors"));
  const std::string place = file.path().string() + ": ";
  const auto message = [&](const std::string& name, const MatrixBlock& block) {
    return message_of(
        [&] { return read_block<double>(file, name, block, DataType::kFloat64).size(); });
  };
  EXPECT_EQ(message("flags", block_of(0, 1, 0, 2, 2)),
            place + "tensor \"flags\": elements of BOOL, expected F64, F32, BF16 or F16");
  EXPECT_EQ(message("eighths", block_of(0, 1, 0, 2, 2)),
            place + "tensor \"eighths\": elements of F8_E4M3, expected F64, F32, BF16 or F16");
  EXPECT_EQ(message("steps", block_of(0, 1, 0, 3, 3)),
            place + "tensor \"steps\": elements of I64, expected F64, F32, BF16 or F16");
  EXPECT_EQ(message("scalar", block_of(0, 1, 0, 1, 1)),
            place + "tensor \"scalar\": shape [], expected one or two dimensions");
  EXPECT_EQ(message("cube", block_of(0, 1, 0, 1, 2)),
            place + "tensor \"cube\": shape [2, 2, 2], expected one or two dimensions");
  EXPECT_THAT(message("matrix.f23", block_of(0, 1, 0, 1, 4)),
              HasSubstr(place + "no tensor \"matrix.f23\"; did you mean \"matrix.f16\""));
}

TEST(SafetensorsFile, RefusesBlocksThatTheTensorLacks) {
  const SafetensorsFile file(golden_weights("model.safetensors"));
  const std::string place = file.path().string() + ": tensor \"matrix.f32\": ";
  const auto message = [&](const MatrixBlock& block) {
    return message_of([&] {
      file.read("matrix.f32", block, {});
      return 0;
    });
  };
  EXPECT_EQ(message(block_of(1, 3, 0, 4, 4)),
            place +
                "shape [3, 4], expected 4 columns, of which 4 from column 0 on, and 3 rows "
                "from row 1 on");
  EXPECT_THAT(message(block_of(0, 3, 0, 4, 5)), HasSubstr("shape [3, 4], expected 5 columns"));
  EXPECT_THAT(message(block_of(0, 3, 2, 3, 4)), HasSubstr("shape [3, 4], expected 4 columns"));
  EXPECT_THAT(message(block_of(-1, 1, 0, 4, 4)), HasSubstr("rows from row -1 on"));
  EXPECT_EQ(message_of([&] {
              file.require_shape("matrix.f32", std::vector<std::int64_t>{4, 3});
              return 0;
            }),
            place + "found shape [3, 4], expected [4, 3]");
}

// A file of 64 GiB, nearly all a hole: what a block needs is read, and nothing else.
TEST(SafetensorsFile, ReadsABlockOfAHugeTensor) {
  const TemporaryDirectory directory;
  const std::string header =
      R"({"w":{"dtype":"F32","shape":[131072,131072],"data_offsets":[0,68719476736]}})";
  const auto path = directory.file("x.safetensors", safetensors_bytes(header, ""));
  const auto begin = static_cast<std::int64_t>(8 + header.size());
  std::error_code error;
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(begin) + 68'719'476'736U, error);
  if (error) {
    GTEST_SKIP() << "no file of 64 GiB here: " << error.message();
  }
  {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(begin + 4 * (std::int64_t{100'000} * 131'072 + 70'000));
    file << bytes_of_elements(std::vector<float>{2.5F, -3.0F});
  }
  const SafetensorsFile file(path);
  EXPECT_THAT(
      read_block<double>(file, "w", block_of(99'999, 2, 69'999, 3, 131'072), DataType::kFloat64),
      ElementsAreArray({0.0, 0.0, 0.0, 0.0, 2.5, -3.0}));
}

// More elements than are converted at a time (2^20).
TEST(SafetensorsFile, ReadsManyElementsOfAnotherType) {
  const TemporaryDirectory directory;
  constexpr std::size_t count = (std::size_t{1} << 21U) + 3;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(i);
  }
  const std::string header =
      R"({"w":{"dtype":"F32","shape":[2097155],"data_offsets":[0,8388620]}})";
  const SafetensorsFile file(
      directory.file("x.safetensors", safetensors_bytes(header, bytes_of_elements(values))));
  const auto found =
      read_block<double>(file, "w", block_of(0, 1, 0, count, count), DataType::kFloat64);
  EXPECT_TRUE(std::ranges::equal(found, values));
}

TEST(SafetensorsFile, SaysWhatWasCutSinceItWasOpened) {
  const TemporaryDirectory directory;
  const std::string header = R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})";
  const auto path =
      directory.file("x.safetensors", safetensors_bytes(header, std::string(16, '\0')));
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, 70);
  EXPECT_EQ(
      message_of([&] {
        return read_block<float>(file, "w", block_of(0, 1, 0, 4, 4), DataType::kFloat32).size();
      }),
      path.string() + ": ends at byte 70, expected 9 bytes more");
}

}  // namespace
}  // namespace ptdp
