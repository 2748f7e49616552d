// Optimized, since the definition takes most of the time of tests of products.
#include "tests/kernels/matmul_definition.h"

#include <algorithm>
#include <cmath>

namespace ptdp {
namespace {

/// Computes a product from its definition. It is not sanitized and uses pointers, since it would
/// take most of the time of a sanitized test.
[[gnu::no_sanitize("address", "undefined")]] void multiply_naively(const Matmul& product,
                                                                   const double* a, const double* b,
                                                                   double* c, double* magnitudes) {
  const auto& [m, n, k, transposes_a, transposes_b, accumulates] = product;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = accumulates ? c[i * n + j] : 0.0;
      double magnitude = sum < 0.0 ? -sum : sum;
      for (std::int64_t p = 0; p < k; ++p) {
        const double term = (transposes_a ? a[p * m + i] : a[i * k + p]) *
                            (transposes_b ? b[j * k + p] : b[p * n + j]);
        sum += term;
        magnitude += term < 0.0 ? -term : term;
      }
      c[i * n + j] = sum;
      magnitudes[i * n + j] = magnitude;
    }
  }
}

}  // namespace

NaiveProduct naive_product(const Matmul& product, const ProductInputs& inputs) {
  NaiveProduct result{inputs.c, Values(inputs.c.size())};
  multiply_naively(product, inputs.a.data(), inputs.b.data(), result.c.data(),
                   result.magnitude.data());
  return result;
}

void expect_each_element(const Values& found, const NaiveProduct& expected, const Matmul& product,
                         DataType type, DataType to) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    // Each of k additions loses a rounding of a partial sum at most; then the result is rounded.
    const double allowed = static_cast<double>(product.k + 2) * rounding_of(accumulator_of(type)) *
                               expected.magnitude[i] +
                           1.01 * rounding_of(to) * std::max(std::abs(expected.c[i]), 1e-3);
    ASSERT_TRUE(std::abs(found[i] - expected.c[i]) <= allowed)
        << "element " << i << " is " << found[i] << ", expected " << expected.c[i];
  }
}

}  // namespace ptdp
