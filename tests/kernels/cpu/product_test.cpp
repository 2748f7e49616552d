// Tests what multiplies on a host (loops of each instruction set, and libraries) against the
// definition. Bits must depend on shapes alone, however products are split.
#include "kernels/cpu/product.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/matmul_definition.h"

namespace ptdp {
namespace {

/// What multiplies: the loops of an instruction set, or a library.
struct Multiplier {
  const KernelTable* loops;
  ProductEngine engine;
};
std::vector<Multiplier> multipliers(DataType type) {
  std::vector<Multiplier> all;
  for (const ProductEngine engine : product_engines(type)) {
    for (const KernelTable* const loops : runnable_kernels()) {
      if (engine == ProductEngine::kOwn || loops == &best_kernels()) {
        all.push_back({loops, engine});
      }
    }
  }
  return all;
}

/// Checks a product by all that multiplies its type.
void check(const Matmul& product, DataType type, DataType to) {
  const KnownProduct known = known_product(product, type, to);
  for (const Multiplier& multiplier : multipliers(type)) {
    SCOPED_TRACE(testing::Message() << multiplier.loops->name << ' ' << name_of(multiplier.engine));
    CpuBackend backend(*multiplier.loops);
    Products products(backend, *multiplier.loops);
    const auto multiply = [&](const Buffer& a, const Buffer& b, const Buffer& c) {
      products.multiply_by(multiplier.engine, product, a, b, c);
    };
    expect_product(backend, multiply, known);
  }
}

constexpr std::array<ProductShape, 12> kProductShapes = {{{0, 3, 4},
                                                          {3, 0, 4},
                                                          {3, 4, 0},
                                                          {1, 1, 1},
                                                          {7, 5, 3},
                                                          {1, 64, 33},
                                                          {64, 1, 70},
                                                          {17, 31, 129},
                                                          {33, 65, 1},
                                                          {48, 96, 64},
                                                          {65, 130, 67},
                                                          {9, 200, 513}}};

TEST(HostProducts, EqualTheDefinitionInEveryTypeFormAndShape) {
  for (const DataType type : kWorkingTypes) {
    for (const DataType to : std::set{type, accumulator_of(type)}) {
      for (const ProductShape& shape : kProductShapes) {
        for (const Matmul& product : products_of(shape)) {
          check(product, type, to);
        }
      }
    }
  }
}

// Not multiples of anything, larger than any block of own loops.
TEST(HostProducts, EqualTheDefinitionOfLargerMatrices) {
  for (const DataType type : kWorkingTypes) {
    check({.m = 131, .n = 307, .k = 301}, type, type);
    check({.m = 130, .n = 259, .k = 301, .transposes_a = true, .accumulates = true}, type,
          accumulator_of(type));
    check({.m = 7, .n = 1030, .k = 520, .transposes_b = true}, type, type);
    check({.m = 530, .n = 3, .k = 270, .accumulates = true}, type, type);
  }
}

TEST(HostProducts, GiveTheSameBitsOnEachCallAndAtAnyAlignment) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    for (const ProductShape& shape :
         {ProductShape{16, 24, 40}, ProductShape{130, 70, 150}, ProductShape{96, 256, 300}}) {
      for (const Matmul& product : products_of(shape)) {
        const ProductInputs inputs(product, type, type);
        Values first;
        for (const std::int64_t offset : {0, 0, 1, 3}) {
          BuffersOf memory(backend);
          const Buffer c = memory.put(type, inputs.c, offset);
          backend.matmul(product, memory.put(type, inputs.a, offset),
                         memory.put(type, inputs.b, 2 * offset), c);
          if (first.empty()) {
            first = memory.get(c);
          }
          ASSERT_EQ(memory.get(c), first) << name_of(type) << ", offset " << offset;
        }
      }
    }
  }
}

/// Returns rows [first, first + count) of a matrix.
Values rows_of(const Values& matrix, std::int64_t width, std::int64_t first, std::int64_t count) {
  return {matrix.begin() + first * width, matrix.begin() + (first + count) * width};
}

void expect_equal_cuts(Backend& backend, const ProductShape& shape) {
  const auto [m, n, k] = shape;
  const Values a = random_values(m * k, 1);
  const Values b = random_values(n * k, 2);  // stored [n, k], as weights are
  const auto multiplied = [&backend, k = k](const Values& left, const Values& right) {
    const auto rows = static_cast<std::int64_t>(left.size()) / k;
    const auto columns = static_cast<std::int64_t>(right.size()) / k;
    BuffersOf memory(backend);
    const Buffer c = memory.poison(kDouble, rows * columns);
    backend.matmul({.m = rows, .n = columns, .k = k, .transposes_b = true},
                   memory.put(kDouble, left), memory.put(kDouble, right), c);
    return memory.get(c);
  };
  const Values whole = multiplied(a, b);
  for (const std::int64_t parts : {2, 4, 8}) {
    const std::int64_t rows = m / parts;
    const std::int64_t columns = n / parts;
    for (std::int64_t part = 0; part < parts; ++part) {
      EXPECT_EQ(multiplied(rows_of(a, k, part * rows, rows), b),
                rows_of(whole, n, part * rows, rows));
      const Values found = multiplied(a, rows_of(b, k, part * columns, columns));
      for (std::int64_t i = 0; i < m * columns; ++i) {
        ASSERT_EQ(found[i], whole[i / columns * n + part * columns + i % columns]);
      }
    }
  }
}

// Tensor parallelism cuts rows and columns of products; in f64 that changes no bit.
TEST(HostProducts, GiveTheSameBitsInF64HoweverRowsAndColumnsAreCut) {
  for (const KernelTable* const loops : runnable_kernels()) {
    CpuBackend backend(*loops);
    for (const ProductShape& shape : {ProductShape{8, 16, 12}, ProductShape{64, 96, 80},
                                      ProductShape{128, 384, 200}, ProductShape{256, 64, 500}}) {
      expect_equal_cuts(backend, shape);
    }
  }
}

// A rank is a thread; a large plan has hundreds of them, all multiplying at once. OpenBLAS ends the
// program where more threads than it has work buffers for are in it.
TEST(HostProducts, WorkInHundredsOfThreadsAtOnce) {
  constexpr int threads = 256;
  constexpr std::int64_t size = 72;
  for (const DataType type : {kDouble, DataType::kFloat32, DataType::kBFloat16}) {
    for (const ProductEngine engine : product_engines(type)) {
      std::vector<Values> results(threads);
      {
        std::vector<std::jthread> ranks;
        ranks.reserve(results.size());
        for (Values& result : results) {
          ranks.emplace_back([&result, type, engine] {
            CpuBackend backend;
            Products products(backend, best_kernels());
            const Tensor a = tensor_of(backend, type, random_values(size * size, 1, type));
            const Tensor c(backend, accumulator_of(type), size * size);
            for (int call = 0; call < 5; ++call) {
              products.multiply_by(engine, {.m = size, .n = size, .k = size}, a, a, c);
            }
            result = read_values(c);
          });
        }
      }
      for (const Values& result : results) {
        EXPECT_EQ(result, results.front()) << name_of(type) << ' ' << name_of(engine);
      }
    }
  }
}

}  // namespace
}  // namespace ptdp
