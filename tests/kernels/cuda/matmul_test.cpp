// Products on a GPU against those of a host in f64.
#include "tests/kernels/cuda/device_values.h"

namespace ptdp {
namespace {

using GpuMatmul = OnGpu;

struct Shape {
  std::int64_t m, n, k;
};

TEST_F(GpuMatmul, AgreesWithTheHostInF64) {
  unsigned seed = 1;
  for (const auto& [m, n, k] : {Shape{1, 1, 1}, Shape{33, 17, 65}, Shape{64, 96, 128},
                                Shape{5, 128, 1}, Shape{130, 8, 72}}) {
    for (const DataType type : kGpuTypes) {
      for (int kind = 0; kind < 16; ++kind) {
        const Matmul product{.m = m,
                             .n = n,
                             .k = k,
                             .transposes_a = (kind & 1) != 0,
                             .transposes_b = (kind & 2) != 0,
                             .accumulates = (kind & 4) != 0};
        const DataType result = (kind & 8) != 0 ? accumulator_of(type) : type;
        const Values a = random_values(m * k, ++seed, type);
        const Values b = random_values(k * n, ++seed, type);
        const Values c = random_values(m * n, ++seed, result);
        const Tensor expected = tensor_of(host(), kDouble, c);
        host().matmul(product, tensor_of(host(), kDouble, a), tensor_of(host(), kDouble, b),
                      expected);
        const Tensor found =
            product.accumulates ? on_gpu(result, c) : poisoned_on_gpu(result, m * n);
        const Tensor left = on_gpu(type, a);
        const Tensor right = on_gpu(type, b);
        gpu().matmul(product, left, right, found);
        expect_near_in_norm(values_of(found), read_values(expected), allowed_error(result),
                            std::string(name_of(type)) + " " + std::to_string(m) + "x" +
                                std::to_string(n) + "x" + std::to_string(k) + ", kind " +
                                std::to_string(kind));
      }
    }
  }
}

// Parts of buffers begin anywhere.
TEST_F(GpuMatmul, TakesOperandsThatAreNotAligned) {
  constexpr std::int64_t size = 24;
  const Values values = random_values(size * size + 1, 3, DataType::kBFloat16);
  const Tensor a = on_gpu(DataType::kBFloat16, values);
  const Tensor c = poisoned_on_gpu(DataType::kFloat32, size * size);
  const Values shifted(values.begin() + 1, values.end());
  const Tensor expected = poisoned(host(), kDouble, size * size);
  const Tensor on_host = tensor_of(host(), kDouble, shifted);
  const Matmul product{.m = size, .n = size, .k = size};
  host().matmul(product, on_host, on_host, expected);
  const Buffer part = a.buffer().slice(1, size * size);
  gpu().matmul(product, part, part, c);
  expect_near_in_norm(values_of(c), read_values(expected), 1e-5, "product");
}

TEST_F(GpuMatmul, GivesTheSameBitsTwice) {
  constexpr std::int64_t size = 96;
  const Tensor a = on_gpu(DataType::kBFloat16, random_values(size * size, 5));
  const Tensor c = poisoned_on_gpu(DataType::kFloat32, size * size);
  const Matmul product{.m = size, .n = size, .k = size, .transposes_b = true};
  gpu().matmul(product, a, a, c);
  const Values first = values_of(c);
  gpu().matmul(product, a, a, c);
  EXPECT_EQ(values_of(c), first);
}

}  // namespace
}  // namespace ptdp
