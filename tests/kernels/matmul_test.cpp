// Compares products with their definition.
#include <gtest/gtest.h>

#include "tests/kernels/matmul_definition.h"

namespace ptdp {
namespace {

using MatrixProduct = OnBackend;

TEST_F(MatrixProduct, EqualsTheDefinitionInEveryTypeFormAndShape) {
  for (const auto& shape : {ProductShape{0, 3, 4}, ProductShape{3, 0, 4}, ProductShape{1, 1, 1},
                            ProductShape{33, 17, 65}, ProductShape{64, 96, 128},
                            ProductShape{5, 128, 1}, ProductShape{130, 8, 72}}) {
    for (const Matmul& product : products_of(shape)) {
      for (const DataType type : computed_types()) {
        for (const DataType to : {type, accumulator_of(type)}) {
          const auto multiply = [&](const Buffer& a, const Buffer& b, const Buffer& c) {
            backend().matmul(product, a, b, c);
          };
          expect_product(backend(), multiply, known_product(product, type, to));
        }
      }
    }
  }
}

// Parts of buffers begin anywhere.
TEST_F(MatrixProduct, TakesOperandsThatAreNotAligned) {
  const Matmul product{.m = 24, .n = 24, .k = 24};
  for (const DataType type : computed_types()) {
    const ProductInputs inputs(product, type, type);
    const DataType accumulator = accumulator_of(type);
    const Buffer c = poison(accumulator, 24 * 24);
    backend().matmul(product, put(type, inputs.a, /*offset=*/1), put(type, inputs.b, /*offset=*/1),
                     c);
    expect_near_in_norm(get(c), naive_product(product, inputs).c, accumulator, "product");
  }
}

TEST_F(MatrixProduct, GivesTheSameBitsTwice) {
  const Matmul product{.m = 96, .n = 96, .k = 96, .transposes_b = true};
  for (const DataType type : computed_types()) {
    const ProductInputs inputs(product, type, type);
    const Buffer a = put(type, inputs.a);
    const Buffer b = put(type, inputs.b);
    const Buffer c = poison(accumulator_of(type), 96 * 96);
    backend().matmul(product, a, b, c);
    const Values first = get(c);
    backend().matmul(product, a, b, c);
    EXPECT_EQ(get(c), first) << name_of(type);
  }
}

}  // namespace
}  // namespace ptdp
