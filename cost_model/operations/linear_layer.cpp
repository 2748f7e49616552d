#include "cost_model/operations/linear_layer.h"

#include "cost_model/operations/memory_bound.h"

namespace ptdp {
namespace {

/// Returns the times of the three products, each from `time(operation, shape)`.
template <class ProductTime>
LinearTime three_times(const LinearProducts& products, const ProductTime& time) {
  return {
      .forward = time(DeviceOperation::kForwardProduct, products.forward),
      .input_gradient = time(DeviceOperation::kInputGradientProduct, products.input_gradient),
      .weight_gradient = time(DeviceOperation::kWeightGradientProduct, products.weight_gradient)};
}

}  // namespace

LinearProducts linear_products(const LinearSize& size, const StackSpec& stack, Fp8Use use) {
  const auto& [tokens, outputs, inputs] = size;
  const bool is_fused = stack.fused_gradient_accumulation;
  const int bytes = element_bytes(stack.precision);
  const double factor_bytes = use == Fp8Use::kByRecipe && stack.fp8 ? fp8_bytes(*stack.fp8) : bytes;
  const int gradient_bytes =
      stack.gradient_bytes > bytes ? accumulator_bytes(stack.precision) : bytes;
  return {.forward = {.m = tokens,
                      .n = outputs,
                      .k = inputs,
                      .element_bytes = factor_bytes,
                      .output_bytes = bytes},
          .input_gradient = {.m = tokens,
                             .n = inputs,
                             .k = outputs,
                             .element_bytes = factor_bytes,
                             .output_bytes = bytes},
          .weight_gradient = {.m = outputs,
                              .n = inputs,
                              .k = tokens,
                              .element_bytes = factor_bytes,
                              .output_bytes = is_fused ? gradient_bytes : bytes,
                              .accumulate = is_fused,
                              .adds_over_tokens = true}};
}

LowBitFormat format_of(Fp8Scaling scaling) {
  switch (scaling) {
    case Fp8Scaling::kDelayed:
    case Fp8Scaling::kCurrent:
    case Fp8Scaling::kRowwise:
      return LowBitFormat::kFp8;
    case Fp8Scaling::kBlock:
      return LowBitFormat::kFp8Block;
    case Fp8Scaling::kMx:
      return LowBitFormat::kFp8Mx;
    case Fp8Scaling::kNvfp4:
      return LowBitFormat::kNvfp4;
  }
  return LowBitFormat::kFp8;
}

LinearTime& LinearTime::operator+=(const LinearTime& other) {
  forward += other.forward;
  input_gradient += other.input_gradient;
  weight_gradient += other.weight_gradient;
  return *this;
}

LinearTime operator*(const LinearTime& time, double factor) {
  return {.forward = time.forward * factor,
          .input_gradient = time.input_gradient * factor,
          .weight_gradient = time.weight_gradient * factor};
}

LinearTime linear_time(std::int64_t tokens, std::int64_t outputs, std::int64_t inputs,
                       const GpuSpec& gpu, const StackSpec& stack, Fp8Use use) {
  const bool in_fp8 = use == Fp8Use::kByRecipe && stack.fp8;
  return three_times(linear_products({tokens, outputs, inputs}, stack, use),
                     [&](DeviceOperation operation, const MatmulShape& shape) {
                       return in_fp8 ? low_bit_matmul_time(shape, gpu, format_of(*stack.fp8))
                                     : product_time(operation, shape, gpu, stack.precision);
                     });
}

LinearTime grouped_linear_time(std::int64_t count, std::int64_t tokens, std::int64_t outputs,
                               std::int64_t inputs, const GpuSpec& gpu, const StackSpec& stack) {
  return three_times(linear_products({tokens, outputs, inputs}, stack, Fp8Use::kByRecipe),
                     [&](DeviceOperation /*operation*/, MatmulShape shape) {
                       shape.batch = count;
                       shape.is_grouped = true;
                       return stack.fp8 ? low_bit_matmul_time(shape, gpu, format_of(*stack.fp8))
                                        : matmul_time(shape, gpu, gpu.peak(stack.precision));
                     });
}

Seconds gradient_accumulation_time(double weights, const GpuSpec& gpu, const StackSpec& stack) {
  const double fills = stack.deterministic ? 1.0 : 0.0;  // the gradient of this microbatch alone
  const double sum = accumulator_bytes(stack.precision);
  // Read and written in sums; or cast to one, and that added to another.
  const double summed = stack.gradient_bytes > sum ? 4.0 * sum : 2.0 * stack.gradient_bytes;
  return memory_bound_time(
      Bytes(weights * ((1.0 + fills) * element_bytes(stack.precision) + summed)), gpu);
}

}  // namespace ptdp
