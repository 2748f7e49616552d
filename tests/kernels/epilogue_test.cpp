// Compares products with epilogues with their definition, whether the backend has the epilogue or
// single operations carry it out.
#include "kernels/epilogue.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>

#include "tests/kernels/finite_differences.h"
#include "tests/kernels/matmul_definition.h"

namespace ptdp {
namespace {

class EpilogueOfProduct : public OnBackend {
 protected:
  /// Compares a product with GELU and a bias, which may be empty. All buffers begin `offset`
  /// elements behind an aligned place.
  void expect_activated(DataType type, const ProductShape& shape, const Values& bias,
                        std::int64_t offset = 0);
};

// GELU's input has rows of n elements: those of 20 and 7 are not divisible by 8.
constexpr std::array<ProductShape, 5> kEpilogueShapes = {
    {{3, 8, 5}, {33, 48, 17}, {64, 96, 128}, {5, 20, 9}, {16, 7, 24}}};

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_difference_quotient(double x) {
  constexpr double step = 1e-5;
  return (gelu(x + step) - gelu(x - step)) / (2.0 * step);
}

/// Carries a call out as the runtime does.
void multiply(Backend& backend, const EpilogueCall& call) {
  if (backend.has_epilogue(call)) {
    backend.matmul_with_epilogue(call);
  } else {
    multiply_apart(backend, call);
  }
}

/// Returns the product of the inputs plus `bias` in every row, in f64.
Values with_bias(const Matmul& product, const ProductInputs& inputs, const Values& bias) {
  Values sums = naive_product(product, inputs).c;
  for (std::size_t i = 0; i < sums.size() && !bias.empty(); ++i) {
    sums[i] += bias[i % bias.size()];
  }
  return sums;
}

/// Calls check(type, shape) for every type and shape.
template <class Check>
void for_products(const Check& check) {
  for (const DataType type : computed_types()) {
    for (const ProductShape& shape : kEpilogueShapes) {
      SCOPED_TRACE(testing::Message()
                   << name_of(type) << ' ' << shape.m << 'x' << shape.n << 'x' << shape.k);
      check(type, shape);
    }
  }
}

void EpilogueOfProduct::expect_activated(DataType type, const ProductShape& shape,
                                         const Values& bias, std::int64_t offset) {
  const Matmul product{.m = shape.m, .n = shape.n, .k = shape.k, .transposes_b = true};
  const ProductInputs inputs(product, type, type);
  const Buffer x = poison(type, shape.m * shape.n, offset);
  const Buffer c = poison(type, shape.m * shape.n, offset);
  multiply(backend(), {.product = product,
                       .a = put(type, inputs.a, offset),
                       .b = put(type, inputs.b, offset),
                       .c = c,
                       .epilogue = Epilogue::kActivation,
                       .bias = bias.empty() ? Buffer{} : put(type, bias, offset),
                       .x = x});
  Values expected = with_bias(product, inputs, bias);
  expect_near_in_norm(get(x), expected, type, "x");
  for (double& value : expected) {
    value = gelu(value);
  }
  expect_near_in_norm(get(c), expected, type, "c");
}

TEST_F(EpilogueOfProduct, AddsABiasToEveryRow) {
  for_products([&](DataType type, const ProductShape& shape) {
    const Matmul product{.m = shape.m, .n = shape.n, .k = shape.k, .transposes_b = true};
    const ProductInputs inputs(product, type, type);
    const Values bias = random_values(shape.n, 4, type, 3.0);
    const Buffer c = poison(type, shape.m * shape.n);
    multiply(backend(), {.product = product,
                         .a = put(type, inputs.a),
                         .b = put(type, inputs.b),
                         .c = c,
                         .epilogue = Epilogue::kBias,
                         .bias = put(type, bias)});
    expect_near_in_norm(get(c), with_bias(product, inputs, bias), type, "c");
  });
}

TEST_F(EpilogueOfProduct, ActivatesAndKeepsTheInputOfTheActivation) {
  for_products([&](DataType type, const ProductShape& shape) {
    expect_activated(type, shape, random_values(shape.n, 4, type));
    expect_activated(type, shape, {});
  });
}

TEST_F(EpilogueOfProduct, MultipliesByTheDerivativeAtTheKeptInput) {
  for_products([&](DataType type, const ProductShape& shape) {
    const Matmul product{.m = shape.m, .n = shape.n, .k = shape.k};
    const ProductInputs inputs(product, type, type);
    const Values x = random_values(shape.m * shape.n, 4, type);
    const Buffer kept = put(type, x);
    const Buffer c = poison(type, shape.m * shape.n);
    multiply(backend(), {.product = product,
                         .a = put(type, inputs.a),
                         .b = put(type, inputs.b),
                         .c = c,
                         .epilogue = Epilogue::kActivationGradient,
                         .x = kept});
    Values expected = naive_product(product, inputs).c;
    for (std::size_t i = 0; i < x.size(); ++i) {
      expected[i] *= gelu_difference_quotient(x[i]);
    }
    // The difference quotient is right to about 1e-10.
    if (type == DataType::kFloat64) {
      EXPECT_LT(relative_error(get(c), expected), 1e-9);
    } else {
      expect_near_in_norm(get(c), expected, type, "c");
    }
    EXPECT_EQ(get(kept), x);
  });
}

// Both sums are added to what is there, and the product's only where it accumulates.
TEST_F(EpilogueOfProduct, AddsTheSumOfAllRowsToTheBiasGradient) {
  for_products([&](DataType type, const ProductShape& shape) {
    const DataType to = accumulator_of(type);
    for (const bool accumulates : {true, false}) {
      const Matmul product{.m = shape.m,
                           .n = shape.n,
                           .k = shape.k,
                           .transposes_a = true,
                           .accumulates = accumulates};
      const ProductInputs inputs(product, type, to);
      Values sums = random_values(shape.m, 4, to);
      const Buffer gradient = put(to, sums);
      const Buffer c = accumulates ? put(to, inputs.c) : poison(to, shape.m * shape.n);
      multiply(backend(), {.product = product,
                           .a = put(type, inputs.a),
                           .b = put(type, inputs.b),
                           .c = c,
                           .epilogue = Epilogue::kBiasGradient,
                           .bias_gradient = gradient});
      for (std::size_t i = 0; i < inputs.a.size(); ++i) {
        sums[i % sums.size()] += inputs.a[i];
      }
      expect_near_in_norm(get(c), naive_product(product, inputs).c, to, "c");
      expect_near_in_norm(get(gradient), sums, to, "bias gradient");
    }
  });
}

// cuBLASLt has none of these.
TEST_F(EpilogueOfProduct, TakesEveryActivation) {
  const DataType type = DataType::kFloat32;
  const Matmul product{.m = 1, .n = 8, .k = 1};
  const Buffer one = put(type, {1.0});
  const Values x = {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0};
  const auto activate = [&](ActivationKind kind) {
    const Buffer c = poison(type, 8);
    multiply(backend(), {.product = product,
                         .a = one,
                         .b = put(type, x),
                         .c = c,
                         .epilogue = Epilogue::kActivation,
                         .activation = kind,
                         .x = poison(type, 8)});
    return get(c);
  };
  const auto slopes = [&](ActivationKind kind) {
    const Buffer c = poison(type, 8);
    multiply(backend(), {.product = product,
                         .a = one,
                         .b = put(type, Values(8, 1.0)),
                         .c = c,
                         .epilogue = Epilogue::kActivationGradient,
                         .activation = kind,
                         .x = put(type, x)});
    return get(c);
  };
  EXPECT_EQ(activate(ActivationKind::kRelu), (Values{0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 2.0, 3.0}));
  EXPECT_EQ(slopes(ActivationKind::kRelu), (Values{0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0}));
  EXPECT_EQ(activate(ActivationKind::kSquaredRelu),
            (Values{0.0, 0.0, 0.0, 0.0, 0.25, 1.0, 4.0, 9.0}));
  // x·Φ(x) differs from the form with tanh in the fourth digit: 1.954500 and 1.954598 at 2.
  EXPECT_NEAR(activate(ActivationKind::kGelu)[6], 1.9544997, 1e-6);
  EXPECT_NEAR(activate(ActivationKind::kTanhGelu)[6], 1.9545977, 1e-6);
}

TEST_F(EpilogueOfProduct, TakesBuffersThatAreNotAligned) {
  for (const DataType type : computed_types()) {
    expect_activated(type, {.m = 24, .n = 24, .k = 24}, random_values(24, 4, type), /*offset=*/1);
  }
}

TEST_F(EpilogueOfProduct, GivesTheSameBitsTwice) {
  for (const DataType type : computed_types()) {
    const Matmul product{.m = 96, .n = 64, .k = 80, .transposes_a = true};
    const ProductInputs inputs(product, type, type);
    const DataType to = accumulator_of(type);
    const Buffer a = put(type, inputs.a);
    const Buffer b = put(type, inputs.b);
    Values first;
    for (int call = 0; call < 2; ++call) {
      const Buffer gradient = put(to, Values(96, 0.0));
      multiply(backend(), {.product = product,
                           .a = a,
                           .b = b,
                           .c = poison(to, 96 * 64),
                           .epilogue = Epilogue::kBiasGradient,
                           .bias_gradient = gradient});
      if (call == 0) {
        first = get(gradient);
      }
      EXPECT_EQ(get(gradient), first) << name_of(type);
    }
  }
}

}  // namespace
}  // namespace ptdp
