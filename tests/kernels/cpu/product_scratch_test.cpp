// Compares what products allocate with what the cost model says of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <vector>

#include "cost_model/operations/host_scratch.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/product.h"

namespace ptdp {
namespace {

/// The forms of a linear layer's three products.
enum class Form { kForward, kInput, kWeight };

std::int64_t allocated(const Matmul& product, DataType type, DataType c_type) {
  CpuBackend backend;
  const Tensor a(backend, type, product.m * product.k);
  const Tensor b(backend, type, product.k * product.n);
  const Tensor c(backend, c_type, product.m * product.n);
  backend.fill(a, 0.0);
  backend.fill(b, 0.0);
  backend.fill(c, 0.0);
  const std::int64_t operands = backend.bytes_in_use();
  backend.reset_peak();
  backend.matmul(product, a, b, c);
  return backend.peak_bytes() - operands;
}

void expect_as_predicted(Form form, std::int64_t m, std::int64_t n, std::int64_t k, DataType type,
                         Precision precision) {
  const bool is_weight = form == Form::kWeight;
  const Matmul product{.m = m,
                       .n = n,
                       .k = k,
                       .transposes_a = is_weight,
                       .transposes_b = form == Form::kForward,
                       .accumulates = is_weight};
  const HostProduct predicted{.m = m,
                              .n = n,
                              .k = k,
                              .transposes_a = product.transposes_a,
                              .transposes_b = product.transposes_b,
                              .narrows = !is_weight};
  EXPECT_EQ(static_cast<double>(allocated(product, type, is_weight ? accumulator_of(type) : type)),
            host_product_scratch(predicted, precision).value())
      << name_of(precision) << ' ' << m << 'x' << n << 'x' << k << " form "
      << static_cast<int>(form);
}

bool uses_one_dnn(DataType type) {
  const std::vector<ProductEngine> engines = product_engines(type);
  return std::find(engines.begin(), engines.end(), ProductEngine::kOneDnn) != engines.end();
}

TEST(ProductScratch, IsThePredictedOne) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512f")) {
    GTEST_SKIP() << "blocks are those of AVX-512, which is not there";
  }
  // Tiles (AMX) pack otherwise than the vectors that the cost model knows.
  ASSERT_EQ(setenv("DNNL_MAX_CPU_ISA", "AVX512_CORE_BF16", 1), 0);  // NOLINT(concurrency-mt-unsafe)
  std::mt19937 random(22);
  const auto size = [&random](int most) { return 2 + static_cast<int>(random() % most); };
  for (int i = 0; i < 40; ++i) {
    for (const Form form : {Form::kForward, Form::kInput, Form::kWeight}) {
      const int most = i % 4 == 0 ? 1200 : 300;
      const auto [m, n, k] = std::array{size(most), size(most), size(most)};
      expect_as_predicted(form, m, n, k, DataType::kFloat64, Precision::kFp64);
      if (uses_one_dnn(DataType::kFloat32)) {
        expect_as_predicted(form, m, n, k, DataType::kFloat32, Precision::kFp32);
      }
      if (uses_one_dnn(DataType::kBFloat16)) {
        expect_as_predicted(form, m, n, k, DataType::kBFloat16, Precision::kBf16);
      }
    }
  }
#else
  GTEST_SKIP() << "blocks are those of AVX-512, which is not there";
#endif
}

}  // namespace
}  // namespace ptdp
