// Products of the host's backend against naive_product f64; that bits depend on shapes alone;
// splits.
#include <gtest/gtest.h>

#include <thread>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/product.h"
#include "tests/kernels/finite_differences.h"
#include "tests/kernels/host_values.h"

namespace ptdp {
namespace {

/// op(A)·op(B), and the sum of magnitudes that bounds the error of each element.
struct NaiveProduct {
  Values c;
  Values magnitude;
};
/// Not sanitized, and over pointers: most of the time of a sanitized test of products would be its.
[[gnu::no_sanitize("address", "undefined")]] NaiveProduct naive_product(const Matmul& product,
                                                                        const Values& left,
                                                                        const Values& right,
                                                                        const Values& before) {
  const auto& [m, n, k, transposes_a, transposes_b, accumulates] = product;
  const double* const a = left.data();
  const double* const b = right.data();
  NaiveProduct result{Values(m * n), Values(m * n)};
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = accumulates ? before[i * n + j] : 0.0;
      double magnitude = std::abs(sum);
      for (std::int64_t p = 0; p < k; ++p) {
        const double term = (transposes_a ? a[p * m + i] : a[i * k + p]) *
                            (transposes_b ? b[j * k + p] : b[p * n + j]);
        sum += term;
        magnitude += std::abs(term);
      }
      result.c[i * n + j] = sum;
      result.magnitude[i * n + j] = magnitude;
    }
  }
  return result;
}

/// What multiplies: loops of an instruction set, or a library.
struct Multiplier {
  const Loops* loops;
  ProductEngine engine;
};
std::vector<Multiplier> multipliers(DataType type) {
  std::vector<Multiplier> all;
  for (const ProductEngine engine : product_engines(type)) {
    for (const Loops* const loops : runnable_loops()) {
      if (engine == ProductEngine::kOwn || loops == &best_loops()) {
        all.push_back({loops, engine});
      }
    }
  }
  return all;
}

void check(const Multiplier& multiplier, const Matmul& product, DataType type, DataType to) {
  CpuBackend backend(*multiplier.loops);
  Products products(backend, *multiplier.loops);
  const Values a = random_values(product.m * product.k, 1, type);
  const Values b = random_values(product.k * product.n, 2, type);
  const Values before = random_values(product.m * product.n, 3, to);
  const Tensor c = product.accumulates ? tensor_of(backend, to, before)
                                       : poisoned(backend, to, product.m * product.n);
  products.multiply_by(multiplier.engine, product, tensor_of(backend, type, a),
                       tensor_of(backend, type, b), c);
  const NaiveProduct expected = naive_product(product, a, b, before);
  const Values found = read_values(c);
  for (std::size_t i = 0; i < found.size(); ++i) {
    // Each of k additions loses a rounding of a partial sum at most; then the result is rounded.
    const double allowed = static_cast<double>(product.k + 2) * rounding_of(accumulator_of(type)) *
                               expected.magnitude[i] +
                           1.01 * rounding_of(to) * std::max(std::abs(expected.c[i]), 1e-3);
    ASSERT_TRUE(std::abs(found[i] - expected.c[i]) <= allowed)
        << multiplier.loops->name << ' ' << name_of(multiplier.engine) << ' ' << product.m << 'x'
        << product.n << 'x' << product.k << ' ' << product.transposes_a << product.transposes_b
        << product.accumulates << ' ' << name_of(type) << " to " << name_of(to) << ": element " << i
        << " is " << found[i] << ", expected " << expected.c[i];
  }
}

std::vector<Matmul> variants(std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<Matmul> all;
  for (const int flags : {0, 1, 2, 3, 4, 5, 6, 7}) {
    all.push_back({.m = m,
                   .n = n,
                   .k = k,
                   .transposes_a = (flags & 1) != 0,
                   .transposes_b = (flags & 2) != 0,
                   .accumulates = (flags & 4) != 0});
  }
  return all;
}

struct ProductShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};
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

TEST(Matmul, EqualsNaiveProductsInEveryTypeFormAndShape) {
  for (const DataType type : kWorkingTypes) {
    for (const Multiplier& multiplier : multipliers(type)) {
      for (const DataType to : {type, accumulator_of(type)}) {
        for (const ProductShape& shape : kProductShapes) {
          for (const Matmul& product : variants(shape.m, shape.n, shape.k)) {
            check(multiplier, product, type, to);
          }
        }
      }
    }
  }
}

// Not multiples of anything, larger than any block of own loops.
TEST(Matmul, EqualsNaiveProductsOfLargerMatrices) {
  for (const DataType type : kWorkingTypes) {
    for (const Multiplier& multiplier : multipliers(type)) {
      check(multiplier, {.m = 131, .n = 307, .k = 301}, type, type);
      check(multiplier, {.m = 130, .n = 259, .k = 301, .transposes_a = true, .accumulates = true},
            type, accumulator_of(type));
      check(multiplier, {.m = 7, .n = 1030, .k = 520, .transposes_b = true}, type, type);
      check(multiplier, {.m = 530, .n = 3, .k = 270, .accumulates = true}, type, type);
    }
  }
}

TEST(Matmul, GradientsAreProductsToo) {
  CpuBackend backend;
  const Values a = random_values(4 * 5, 1);
  const Values b = random_values(5 * 3, 2);
  const Values dc = random_values(4 * 3, 3);
  const auto loss = [&](const Values& left, const Values& right) {
    const Tensor c = poisoned(backend, kDouble, 4 * 3);
    backend.matmul({.m = 4, .n = 3, .k = 5}, tensor_of(backend, kDouble, left),
                   tensor_of(backend, kDouble, right), c);
    return dot(read_values(c), dc);
  };
  const Tensor da = poisoned(backend, kDouble, 4 * 5);
  const Tensor db = poisoned(backend, kDouble, 5 * 3);
  const Tensor gradient = tensor_of(backend, kDouble, dc);
  backend.matmul({.m = 4, .n = 5, .k = 3, .transposes_b = true}, gradient,
                 tensor_of(backend, kDouble, b), da);
  backend.matmul({.m = 5, .n = 3, .k = 4, .transposes_a = true}, tensor_of(backend, kDouble, a),
                 gradient, db);
  expect_close(read_values(da), numeric_gradient(a, [&](const Values& v) { return loss(v, b); }),
               1e-6, 1.0, "a");
  expect_close(read_values(db), numeric_gradient(b, [&](const Values& v) { return loss(a, v); }),
               1e-6, 1.0, "b");
}

/// Elements [first, first + count) of a larger buffer, which therefore begins anywhere.
Tensor whole_of(Backend& backend, const Values& values, DataType type, std::int64_t shift) {
  Values shifted(static_cast<std::size_t>(shift), 0.0);
  shifted.insert(shifted.end(), values.begin(), values.end());
  return tensor_of(backend, type, shifted);
}

TEST(Matmul, GivesTheSameBitsOnEachCallAndAtAnyAlignment) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    for (const ProductShape& shape :
         {ProductShape{16, 24, 40}, ProductShape{130, 70, 150}, ProductShape{96, 256, 300}}) {
      for (const Matmul& product : variants(shape.m, shape.n, shape.k)) {
        const Values a = random_values(shape.m * shape.k, 1, type);
        const Values b = random_values(shape.k * shape.n, 2, type);
        const Values before = random_values(shape.m * shape.n, 3, type);
        Values first;
        for (const std::int64_t shift : {0, 0, 1, 3}) {
          const Tensor left = whole_of(backend, a, type, shift);
          const Tensor right = whole_of(backend, b, type, 2 * shift);
          const Tensor to = whole_of(backend, before, type, shift);
          const Buffer c = to.buffer().slice(shift, shape.m * shape.n);
          backend.matmul(product, left.buffer().slice(shift, shape.m * shape.k),
                         right.buffer().slice(2 * shift, shape.k * shape.n), c);
          if (first.empty()) {
            first = read_values(c);
          }
          ASSERT_EQ(read_values(c), first) << name_of(type) << " shifted by " << shift;
        }
      }
    }
  }
}

/// Rows [first, first + count) of a matrix.
Values rows_of(const Values& matrix, std::int64_t width, std::int64_t first, std::int64_t count) {
  return {matrix.begin() + first * width, matrix.begin() + (first + count) * width};
}

void expect_equal_cuts(Backend& backend) {
  for (const ProductShape& shape : {ProductShape{8, 16, 12}, ProductShape{64, 96, 80},
                                    ProductShape{128, 384, 200}, ProductShape{256, 64, 500}}) {
    const auto [m, n, k] = shape;
    const Values a = random_values(m * k, 1);
    const Values b = random_values(n * k, 2);  // stored [n, k], as weights are
    const Tensor whole = poisoned(backend, kDouble, m * n);
    backend.matmul({.m = m, .n = n, .k = k, .transposes_b = true}, tensor_of(backend, kDouble, a),
                   tensor_of(backend, kDouble, b), whole);
    const Values expected = read_values(whole);
    for (const std::int64_t parts : {2, 4, 8}) {
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t rows = m / parts;
        const Tensor by_rows = poisoned(backend, kDouble, rows * n);
        backend.matmul({.m = rows, .n = n, .k = k, .transposes_b = true},
                       tensor_of(backend, kDouble, rows_of(a, k, part * rows, rows)),
                       tensor_of(backend, kDouble, b), by_rows);
        EXPECT_EQ(read_values(by_rows), rows_of(expected, n, part * rows, rows));

        const std::int64_t columns = n / parts;
        const Tensor by_columns = poisoned(backend, kDouble, m * columns);
        backend.matmul(
            {.m = m, .n = columns, .k = k, .transposes_b = true}, tensor_of(backend, kDouble, a),
            tensor_of(backend, kDouble, rows_of(b, k, part * columns, columns)), by_columns);
        const Values found = read_values(by_columns);
        for (std::int64_t i = 0; i < m * columns; ++i) {
          ASSERT_EQ(found[i], expected[i / columns * n + part * columns + i % columns]);
        }
      }
    }
  }
}

// Tensor parallelism cuts rows and columns of products; in f64 that changes no bit.
TEST(Matmul, InF64GivesTheSameBitsHoweverRowsAndColumnsAreCut) {
  for (const Loops* const loops : runnable_loops()) {
    CpuBackend backend(*loops);
    expect_equal_cuts(backend);
  }
}

// A rank is a thread; a large plan has hundreds of them, all multiplying at once. OpenBLAS ends the
// program where more threads than it has work buffers for are in it.
TEST(Matmul, WorksInHundredsOfThreadsAtOnce) {
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
            Products products(backend, best_loops());
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
