// Rotary positions against their definition in f64.
#include <gtest/gtest.h>

#include <array>

#include "tests/kernels/finite_differences.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

/// Vectors of heads in rows that are followed by elements which are not turned.
struct RotaryShape {
  std::int64_t rows = 0;
  std::int64_t heads = 1;
  std::int64_t head_size = 2;
  std::int64_t width = 2;
  std::int64_t gap = 0;  ///< Elements between the heads of a row and the next row.
};
// Whole vectors of 16 bytes of every type, of f32 only, of none; all of a head, and a part of it.
constexpr std::array<RotaryShape, 10> kRotaryShapes = {{{.rows = 0, .head_size = 8, .width = 8},
                                                        {.rows = 1},
                                                        {.rows = 9, .head_size = 16, .width = 16},
                                                        {9, 3, 64, 64, 128},
                                                        {9, 3, 64, 16, 8},
                                                        {10, 2, 80, 32, 0},
                                                        {10, 2, 128, 128, 4},
                                                        {10, 5, 24, 8, 3},
                                                        {7, 3, 7, 6, 1},
                                                        {10, 40, 128, 128, 64}}};

// Five positions in two runs, of two sequences; the second run lies in front of the first.
constexpr std::int64_t kPositions = 12;
constexpr std::array<std::int64_t, 5> kTurnedPositions = {9, 10, 11, 2, 3};
constexpr TokenRange kTurnedRange{
    .first_sample = 5, .batch = 2, .seq_length = kPositions, .runs = {{{9, 3}, {2, 2}}}};

/// Returns cosines and sines of each position, exact in a type.
Values angle_table(std::int64_t width, DataType type) {
  Values table;
  for (std::int64_t position = 0; position < kPositions; ++position) {
    for (const bool is_sine : {false, true}) {
      for (std::int64_t i = 0; i < width / 2; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(width);
        const double angle = static_cast<double>(position) * std::pow(100.0, exponent);
        table.push_back(rounded(is_sine ? std::sin(angle) : std::cos(angle), type));
      }
    }
  }
  return table;
}

Values naive_rotation(const RotaryShape& shape, const Values& x, const Values& table,
                      bool turns_back) {
  const std::int64_t half = shape.width / 2;
  Values y = x;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const double* const cosines = table.data() + kTurnedPositions[row / 2] * shape.width;
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const std::int64_t first =
          row * (shape.heads * shape.head_size + shape.gap) + head * shape.head_size;
      for (std::int64_t i = 0; i < half; ++i) {
        const double c = cosines[i];
        const double s = turns_back ? -cosines[half + i] : cosines[half + i];
        y[first + i] = x[first + i] * c - x[first + half + i] * s;
        y[first + half + i] = x[first + half + i] * c + x[first + i] * s;
      }
    }
  }
  return y;
}

class Rotary : public OnBackend {
 protected:
  static std::int64_t stride_of(const RotaryShape& shape) {
    return shape.heads * shape.head_size + shape.gap;
  }
  /// Returns what becomes of x in buffers `offset` elements after an aligned address.
  Values turned(DataType type, const RotaryShape& shape, const Values& x, bool turns_back,
                std::int64_t offset = 0) {
    const DataType accumulator = accumulator_of(type);
    const Buffer in_place = put(type, x, offset);
    backend().rotate({.x = {in_place, stride_of(shape)},
                      .angles = put(accumulator, angle_table(shape.width, accumulator), offset),
                      .heads = shape.heads,
                      .head_size = shape.head_size,
                      .width = shape.width,
                      .range = kTurnedRange,
                      .rows = shape.rows,
                      .turns_back = turns_back});
    return get(in_place);
  }
};

TEST_F(Rotary, EqualsTheDefinitionForwardAndBackAndTouchesNothingElse) {
  for (const DataType type : computed_types()) {
    for (const RotaryShape& shape : kRotaryShapes) {
      const Values x = random_values(shape.rows * stride_of(shape), 1, type);
      const Values table = angle_table(shape.width, accumulator_of(type));
      for (const bool turns_back : {false, true}) {
        SCOPED_TRACE(testing::Message() << name_of(type) << " " << shape.rows << "x" << shape.heads
                                        << "x" << shape.head_size << " " << shape.width);
        const Values expected = naive_rotation(shape, x, table, turns_back);
        const Values found = turned(type, shape, x, turns_back);
        expect_near(found, expected, type, {.units = 8.0}, "x");
        for (std::size_t i = 0; i < x.size(); ++i) {
          if (expected[i] == x[i]) {
            ASSERT_EQ(found[i], x[i]) << i;
          }
        }
      }
    }
  }
}

TEST_F(Rotary, GivesTheSameBitsAtAnyAlignment) {
  const RotaryShape shape{.rows = 10, .heads = 3, .head_size = 64, .width = 32, .gap = 64};
  for (const DataType type : computed_types()) {
    const Values x = random_values(shape.rows * stride_of(shape), 2, type);
    const Values expected = turned(type, shape, x, false);
    for (const std::int64_t offset : {1, 2, 4}) {
      EXPECT_EQ(turned(type, shape, x, false, offset), expected) << name_of(type);
    }
  }
}

TEST_F(Rotary, TurnsBackWhatItTurned) {
  const RotaryShape shape{.rows = 10, .heads = 3, .head_size = 64, .width = 48, .gap = 16};
  for (const DataType type : computed_types()) {
    const Values x = random_values(shape.rows * stride_of(shape), 3, type);
    expect_near(turned(type, shape, turned(type, shape, x, false), true), x, type,
                {.units = 16.0, .roundings = 4.0}, "x");
  }
}

TEST_F(Rotary, TurnsGradientsBack) {
  const RotaryShape shape{.rows = 10, .heads = 2, .head_size = 6, .width = 4, .gap = 3};
  const DataType type = widest_type();
  const Values x = random_values(shape.rows * stride_of(shape), 4, type);
  const Values dy = random_values(shape.rows * stride_of(shape), 5, type);
  const Values table = angle_table(shape.width, accumulator_of(type));
  expect_gradient(
      turned(type, shape, dy, true), x,
      [&](const Values& moved) { return dot(naive_rotation(shape, moved, table, false), dy); },
      "x");
}

}  // namespace
}  // namespace ptdp
