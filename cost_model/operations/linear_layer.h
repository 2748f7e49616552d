// Time of the products of a linear layer.
#pragma once

#include <cstdint>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/units.h"

namespace ptdp {

/// Three products of a linear layer: forward, input gradient, weight gradient.
struct LinearTime {
  Seconds forward;
  Seconds input_gradient;
  Seconds weight_gradient;

  LinearTime& operator+=(const LinearTime& other);
  friend LinearTime operator+(LinearTime a, const LinearTime& b) { return a += b; }
  friend LinearTime operator*(const LinearTime& time, double factor);
};

/// Whether a linear layer is one that the stack may form in 8 bits (Fp8Recipe).
enum class Fp8Use { kNever, kByRecipe };

/// A linear layer of `tokens` rows, from `inputs` to `outputs` features on this GPU. In 8 bits its
/// products run at GpuSpec::fp8_rate, with factors of one byte and results as ever: the curve of
/// the stack's precision over a higher peak, for no measured one is known. Casts are not in it
/// (fp8_casts.h).
[[nodiscard]] LinearTime linear_time(std::int64_t tokens, std::int64_t outputs, std::int64_t inputs,
                                     const GpuSpec& gpu, const StackSpec& stack,
                                     Fp8Use use = Fp8Use::kNever);

/// `count` of them side by side in one launch each, the tiles of all in common waves: the grouped
/// products of experts with as many tokens each, in 8 bits where the stack has them.
[[nodiscard]] LinearTime grouped_linear_time(std::int64_t count, std::int64_t tokens,
                                             std::int64_t outputs, std::int64_t inputs,
                                             const GpuSpec& gpu, const StackSpec& stack);

/// Time to add the gradient of `weights` weights to the sum over earlier microbatches: the new one
/// is read (an element each), the sum read and written.
[[nodiscard]] Seconds gradient_accumulation_time(double weights, const GpuSpec& gpu,
                                                 const StackSpec& stack);

}  // namespace ptdp
