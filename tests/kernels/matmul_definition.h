// Computes matrix products by their definition, in f64.
#pragma once

#include <gtest/gtest.h>

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
/// Computes a product from its definition.
[[nodiscard]] NaiveProduct naive_product(const Matmul& product, const ProductInputs& inputs);
/// Expects each element of a product to differ from the definition's by its roundings at most: of
/// `type` in the sum, and of the type of the result.
void expect_each_element(const Values& found, const NaiveProduct& expected, const Matmul& product,
                         DataType type, DataType to);

/// A product of types, its inputs and its result by the definition.
struct KnownProduct {
  Matmul product;
  DataType type = DataType::kFloat32;
  DataType to = DataType::kFloat32;
  ProductInputs inputs;
  NaiveProduct expected;
};
[[nodiscard]] inline KnownProduct known_product(const Matmul& product, DataType type, DataType to) {
  const ProductInputs inputs(product, type, to);
  return {product, type, to, inputs, naive_product(product, inputs)};
}

/// Expects `multiply`, given a, b and c in the memory of a backend, to find the product.
template <class Multiply>
void expect_product(Backend& backend, const Multiply& multiply, const KnownProduct& known) {
  const auto& [product, type, to, inputs, expected] = known;
  SCOPED_TRACE(testing::Message() << product.m << 'x' << product.n << 'x' << product.k << ' '
                                  << product.transposes_a << product.transposes_b
                                  << product.accumulates << ' ' << name_of(type) << " to "
                                  << name_of(to));
  BuffersOf memory(backend);
  const Buffer c =
      product.accumulates ? memory.put(to, inputs.c) : memory.poison(to, product.m * product.n);
  multiply(memory.put(type, inputs.a), memory.put(type, inputs.b), c);
  const Values found = memory.get(c);
  expect_near_in_norm(found, expected.c, to, "product");
  if (bounds_each_element()) {
    expect_each_element(found, expected, product, type, to);
  }
}

}  // namespace ptdp
