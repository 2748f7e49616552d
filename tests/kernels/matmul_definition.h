// Computes matrix products by their definition, in f64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {

struct ProductShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

/// Returns all forms of a product of this shape.
inline std::vector<Matmul> products_of(const ProductShape& shape) {
  std::vector<Matmul> all;
  for (const int flags : {0, 1, 2, 3, 4, 5, 6, 7}) {
    all.push_back({.m = shape.m,
                   .n = shape.n,
                   .k = shape.k,
                   .transposes_a = (flags & 1) != 0,
                   .transposes_b = (flags & 2) != 0,
                   .accumulates = (flags & 4) != 0});
  }
  return all;
}

/// The inputs of a product; `c` is what the product is added to.
struct ProductInputs {
  ProductInputs(const Matmul& product, DataType type, DataType to)
      : a(random_values(product.m * product.k, 1, type)),
        b(random_values(product.k * product.n, 2, type)),
        c(random_values(product.m * product.n, 3, to)) {}

  Values a, b, c;
};

/// op(A)·op(B), and the sum of magnitudes that bounds the error of each element.
struct NaiveProduct {
  Values c;
  Values magnitude;
};
/// Computes a product from its definition. It is not sanitized and uses pointers, since it would
/// take most of the time of a sanitized test.
[[gnu::no_sanitize("address", "undefined")]] inline NaiveProduct naive_product(
    const Matmul& product, const ProductInputs& inputs) {
  const auto& [m, n, k, transposes_a, transposes_b, accumulates] = product;
  const double* const a = inputs.a.data();
  const double* const b = inputs.b.data();
  NaiveProduct result{Values(m * n), Values(m * n)};
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = accumulates ? inputs.c[i * n + j] : 0.0;
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

/// Expects `multiply`, given a, b and c in the memory of a backend, to find the product.
template <class Multiply>
void expect_product(Backend& backend, const Multiply& multiply, const Matmul& product,
                    DataType type, DataType to) {
  SCOPED_TRACE(testing::Message() << product.m << 'x' << product.n << 'x' << product.k << ' '
                                  << product.transposes_a << product.transposes_b
                                  << product.accumulates << ' ' << name_of(type) << " to "
                                  << name_of(to));
  const ProductInputs inputs(product, type, to);
  BuffersOf memory(backend);
  const Buffer c =
      product.accumulates ? memory.put(to, inputs.c) : memory.poison(to, product.m * product.n);
  multiply(memory.put(type, inputs.a), memory.put(type, inputs.b), c);
  const NaiveProduct expected = naive_product(product, inputs);
  const Values found = memory.get(c);
  expect_near_in_norm(found, expected.c, to, "product");
  for (std::size_t i = 0; i < found.size() && bounds_each_element(); ++i) {
    // Each of k additions loses a rounding of a partial sum at most; then the result is rounded.
    const double allowed = static_cast<double>(product.k + 2) * rounding_of(accumulator_of(type)) *
                               expected.magnitude[i] +
                           1.01 * rounding_of(to) * std::max(std::abs(expected.c[i]), 1e-3);
    ASSERT_TRUE(std::abs(found[i] - expected.c[i]) <= allowed)
        << "element " << i << " is " << found[i] << ", expected " << expected.c[i];
  }
}

}  // namespace ptdp
