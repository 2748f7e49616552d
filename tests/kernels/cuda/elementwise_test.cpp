// Tests element-wise operations on more elements than a GPU has threads.
#include <gtest/gtest.h>

#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

using GpuElementwise = OnBackend;

// More elements than a grid's threads take at once, one by one and by vectors.
TEST_F(GpuElementwise, GoesThroughMoreElementsThanThreads) {
  constexpr std::int64_t size = (1 << 22) + 1543;
  const Tensor x(backend(), DataType::kFloat32, size + 1);
  backend().fill(x, 1.5);
  backend().scale(x.buffer().slice(1, size), 2.0);
  backend().add(x.buffer().slice(0, size), x.buffer().slice(0, size));
  Values expected(size + 1, 6.0);
  expected[0] = expected[size] = 3.0;
  EXPECT_EQ(get(x), expected);

  constexpr std::int64_t width = 1025;
  constexpr std::int64_t rows = size / 3 / width;
  const Values bias = random_values(width, 2, DataType::kFloat32);
  backend().add_bias(x.buffer().slice(1, rows * width), put(DataType::kFloat32, bias), rows);
  for (std::int64_t i = 0; i < rows * width; ++i) {
    expected[1 + i] = rounded(6.0 + bias[i % width], DataType::kFloat32);
  }
  EXPECT_EQ(get(x), expected);
}

}  // namespace
}  // namespace ptdp
