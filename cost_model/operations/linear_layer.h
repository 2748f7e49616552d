// Time of the products of a linear layer.
#pragma once

#include <cstdint>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/operations/gemm.h"
#include "cost_model/units.h"

namespace ptdp {

/// Times of the three products of a linear layer: forward, input gradient and weight gradient.
struct LinearTime {
  Seconds forward;
  Seconds input_gradient;
  Seconds weight_gradient;

  LinearTime& operator+=(const LinearTime& other);
  friend LinearTime operator+(LinearTime a, const LinearTime& b) { return a += b; }
  friend LinearTime operator*(const LinearTime& time, double factor);
};

/// Returns the format of the factors of products that are cast with `scaling`.
[[nodiscard]] LowBitFormat format_of(Fp8Scaling scaling);

/// Whether a linear layer may run in 8 bits: never, or when the stack has an Fp8Recipe.
enum class Fp8Use { kNever, kByRecipe };

/// Sizes of a linear layer on one GPU.
struct LinearSize {
  std::int64_t tokens = 0;   ///< Rows of its input.
  std::int64_t outputs = 0;  ///< Features that it puts out.
  std::int64_t inputs = 0;   ///< Features that it takes.
};

/// Shapes of the three products of a linear layer.
struct LinearProducts {
  MatmulShape forward;
  MatmulShape input_gradient;
  MatmulShape weight_gradient;
};

/// Returns the shapes of the products whose times linear_time() adds up.
[[nodiscard]] LinearProducts linear_products(const LinearSize& size, const StackSpec& stack,
                                             Fp8Use use = Fp8Use::kNever);

/// Time of a linear layer of `tokens` rows, from `inputs` to `outputs` features on this GPU.
///
/// In 8 bits its products take low_bit_matmul_time(). Factors take fp8_bytes(); results keep their
/// size. Casts are not included (fp8_casts.h).
[[nodiscard]] LinearTime linear_time(std::int64_t tokens, std::int64_t outputs, std::int64_t inputs,
                                     const GpuSpec& gpu, const StackSpec& stack,
                                     Fp8Use use = Fp8Use::kNever);

/// Time of `count` linear layers side by side in one launch each, the tiles of all in common waves.
/// It is that of the grouped products of experts, `tokens` rows each. They run in 8 bits when the
/// stack has a recipe.
[[nodiscard]] LinearTime grouped_linear_time(std::int64_t count, std::int64_t tokens,
                                             std::int64_t outputs, std::int64_t inputs,
                                             const GpuSpec& gpu, const StackSpec& stack);

/// Time to add the gradient of `weights` weights to the sum over earlier microbatches. The gradient
/// is read (an element each), the sum read and written. A stack whose gradient_bytes are both casts
/// it first (DeepSpeed's BF16_Optimizer, update_hp_grads): written and read once more, as a sum. A
/// deterministic stack fills the gradient before it is computed.
[[nodiscard]] Seconds gradient_accumulation_time(double weights, const GpuSpec& gpu,
                                                 const StackSpec& stack);

}  // namespace ptdp
