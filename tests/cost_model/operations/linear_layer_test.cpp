// Tests of the time of a linear layer's products and of gradient accumulation.
#include "cost_model/operations/linear_layer.h"

#include <gtest/gtest.h>

#include "tests/cost_model/plain_scenario.h"

namespace ptdp {
namespace {

/// Returns a GPU whose products are as fast as 1 B/s brings what they read and write.
GpuSpec slow_memory() {
  GpuSpec gpu = plain_scenario(small_expert_model()).cluster.gpu;
  gpu.peak_bf16 = gpu.peak_fp8 = FlopsPerSecond(1e30);
  gpu.fp8_matmul_efficiency.reset();
  gpu.low_bit_products.clear();
  gpu.matmul_memory_efficiency = 1.0;
  gpu.memory_bandwidth = BytesPerSecond(1.0);
  return gpu;
}

StackSpec bf16_stack(bool adds_into_gradients, double gradient_bytes) {
  StackSpec stack;
  stack.fused_gradient_accumulation = adds_into_gradients;
  stack.gradient_bytes = gradient_bytes;
  return stack;
}

constexpr double kRowsOfX = 5.0;
constexpr double kColumnsOfY = 7.0;
constexpr double kColumnsOfX = 11.0;

void expect_bytes(const LinearTime& time, double forward, double input, double weight) {
  EXPECT_NEAR(time.forward.value(), forward, 1e-9);
  EXPECT_NEAR(time.input_gradient.value(), input, 1e-9);
  EXPECT_NEAR(time.weight_gradient.value(), weight, 1e-9);
}

// By hand: 5 rows of 11 features to 7. Each product has 2·5·7·11 FLOPs; the gradient of W adds over
// rows, into sums of 4 bytes where products add.
TEST(LinearProducts, AreTheThreeOfALinearLayer) {
  const LinearProducts products =
      linear_products({.tokens = 5, .outputs = 7, .inputs = 11}, bf16_stack(true, 4.0));
  const double x = 2.0 * 5 * 11;
  const double w = 2.0 * 7 * 11;
  const double y = 2.0 * 5 * 7;
  for (const MatmulShape& product :
       {products.forward, products.input_gradient, products.weight_gradient}) {
    EXPECT_EQ(matmul_flops(product), Flops(2.0 * 5 * 7 * 11));
  }
  EXPECT_EQ(matmul_bytes(products.forward), Bytes(x + w + y));
  EXPECT_EQ(matmul_bytes(products.input_gradient), Bytes(y + w + x));
  EXPECT_EQ(matmul_bytes(products.weight_gradient), Bytes(y + x + 2.0 * 2.0 * w));
}

// Rows of X, W and dY lie features apart: an odd number of tokens slows none of the products, an
// odd number of outputs all three. 1001 are as many tiles as 1000.
TEST(LinearTime, OfOddFeaturesIsTwiceThatOfOddTokens) {
  GpuSpec gpu = plain_scenario(small_expert_model()).cluster.gpu;
  gpu.matmul_tile.reset();
  const StackSpec stack = bf16_stack(false, 2.0);
  const LinearTime even = linear_time(1000, 1000, 1000, gpu, stack);
  const LinearTime odd_tokens = linear_time(1001, 1000, 1000, gpu, stack);
  const LinearTime odd_outputs = linear_time(1000, 1001, 1000, gpu, stack);
  for (const auto product :
       {&LinearTime::forward, &LinearTime::input_gradient, &LinearTime::weight_gradient}) {
    EXPECT_NEAR(odd_tokens.*product / even.*product, 1.0, 0.002);
    EXPECT_NEAR(odd_outputs.*product / even.*product, 2.0, 0.004);
  }
}

// Each product reads two of X [5, 11], W [7, 11] and dY [5, 7] and writes the third, two bytes an
// element. A weight gradient that is added to the sum reads and writes the sum: four bytes an
// element, or as many as the sum has.
TEST(LinearTime, IsThatOfReadingTheFactorsAndWritingTheResult) {
  const GpuSpec gpu = slow_memory();
  const double x = kRowsOfX * kColumnsOfX;
  const double w = kColumnsOfY * kColumnsOfX;
  const double y = kRowsOfX * kColumnsOfY;
  const double all = 2.0 * (x + w + y);
  const auto time = [&](const StackSpec& stack, Fp8Use use = Fp8Use::kNever) {
    return linear_time(5, 7, 11, gpu, stack, use);
  };
  expect_bytes(time(bf16_stack(false, 4.0)), all, all, all);
  expect_bytes(time(bf16_stack(true, 4.0)), all, all, 2.0 * (x + y) + 2.0 * 4.0 * w);
  expect_bytes(time(bf16_stack(true, 2.0)), all, all, 2.0 * (x + y) + 2.0 * 2.0 * w);

  StackSpec in_8_bits = bf16_stack(true, 4.0);
  in_8_bits.fp8 = Fp8Scaling::kDelayed;
  expect_bytes(time(in_8_bits), all, all, 2.0 * (x + y) + 8.0 * w);
  expect_bytes(time(in_8_bits, Fp8Use::kByRecipe), x + w + 2.0 * y, y + w + 2.0 * x,
               x + y + 8.0 * w);
  expect_bytes(time(bf16_stack(false, 4.0), Fp8Use::kByRecipe), all, all, all);

  expect_bytes(grouped_linear_time(3, 5, 7, 11, gpu, bf16_stack(false, 4.0)), 3.0 * all, 3.0 * all,
               3.0 * all);
  expect_bytes(grouped_linear_time(3, 5, 7, 11, gpu, in_8_bits), 3.0 * (x + w + 2.0 * y),
               3.0 * (y + w + 2.0 * x), 3.0 * (x + y + 8.0 * w));
}

// fp32 numbers have four bytes, whatever units multiply them; 4 bits with their scale are 9/16.
TEST(LinearTime, ReadsTheElementsOfThePrecision) {
  GpuSpec gpu = slow_memory();
  gpu.peak_fp32 = gpu.peak_tf32 = gpu.peak_fp4 = FlopsPerSecond(1e30);
  const double x = kRowsOfX * kColumnsOfX;
  const double w = kColumnsOfY * kColumnsOfX;
  const double y = kRowsOfX * kColumnsOfY;
  StackSpec wide = bf16_stack(true, 4.0);
  for (const Precision precision : {Precision::kFp32, Precision::kTf32}) {
    wide.precision = precision;
    expect_bytes(linear_time(5, 7, 11, gpu, wide), 4.0 * (x + w + y), 4.0 * (x + w + y),
                 4.0 * (x + y) + 8.0 * w);
  }
  StackSpec in_4_bits = bf16_stack(true, 4.0);
  in_4_bits.fp8 = Fp8Scaling::kNvfp4;
  const double part = 9.0 / 16.0;
  expect_bytes(linear_time(5, 7, 11, gpu, in_4_bits, Fp8Use::kByRecipe), part * (x + w) + 2.0 * y,
               part * (y + w) + 2.0 * x, part * (x + y) + 8.0 * w);
}

// A product of 2·512³ FLOPs over a peak of its own for each precision.
TEST(LinearTime, RunsAtThePeakOfItsPrecision) {
  GpuSpec gpu = plain_scenario(small_expert_model()).cluster.gpu;
  gpu.low_bit_products.clear();
  gpu.fp8_matmul_efficiency.reset();
  gpu.peak_fp32 = FlopsPerSecond(2e9);
  gpu.peak_tf32 = FlopsPerSecond(8e9);
  gpu.peak_fp8 = FlopsPerSecond(3e9);
  gpu.peak_fp4 = FlopsPerSecond(6e9);
  const double flops = 2.0 * 512 * 512 * 512;
  StackSpec stack;
  stack.precision = Precision::kFp32;
  EXPECT_NEAR(linear_time(512, 512, 512, gpu, stack).forward.value(), flops / 2e9, 1e-9);
  stack.precision = Precision::kTf32;
  EXPECT_NEAR(linear_time(512, 512, 512, gpu, stack).forward.value(), flops / 8e9, 1e-9);
  stack.precision = Precision::kBf16;
  stack.fp8 = Fp8Scaling::kRowwise;
  EXPECT_NEAR(linear_time(512, 512, 512, gpu, stack, Fp8Use::kByRecipe).forward.value(),
              flops / 3e9, 1e-9);
  stack.fp8 = Fp8Scaling::kNvfp4;
  const LinearTime four = linear_time(512, 512, 512, gpu, stack, Fp8Use::kByRecipe);
  for (const Seconds time : {four.forward, four.input_gradient, four.weight_gradient}) {
    EXPECT_NEAR(time.value(), flops / 6e9, 1e-9);
  }
}

TEST(LinearTime, IsAddedAndMultipliedProductByProduct) {
  const LinearTime a{Seconds(1.0), Seconds(2.0), Seconds(3.0)};
  const LinearTime b{Seconds(10.0), Seconds(20.0), Seconds(30.0)};
  expect_bytes(a + b, 11.0, 22.0, 33.0);
  expect_bytes(b * 0.5, 5.0, 10.0, 15.0);
}

// 100 new gradients of two bytes are read, the sums of four bytes read and written.
TEST(GradientAccumulationTime, IsThatOfThreePasses) {
  const GpuSpec gpu = slow_memory();
  EXPECT_NEAR(gradient_accumulation_time(100.0, gpu, bf16_stack(false, 4.0)).value(), 1000.0, 1e-9);
  EXPECT_NEAR(gradient_accumulation_time(100.0, gpu, bf16_stack(false, 2.0)).value(), 600.0, 1e-9);
}

// Both are kept: 2 bytes read, 4 written, then two sums of 4 read and one written.
TEST(GradientAccumulationTime, CastsGradientsThatStayBesideTheirSum) {
  EXPECT_NEAR(gradient_accumulation_time(100.0, slow_memory(), bf16_stack(false, 6.0)).value(),
              1800.0, 1e-9);
}

// The new gradients are filled before they are computed.
TEST(GradientAccumulationTime, HasAPassMoreWhereResultsRepeat) {
  StackSpec stack = bf16_stack(false, 4.0);
  stack.deterministic = true;
  EXPECT_NEAR(gradient_accumulation_time(100.0, slow_memory(), stack).value(), 1200.0, 1e-9);
}

}  // namespace
}  // namespace ptdp
