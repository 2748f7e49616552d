// The software stack that this project's own runtime is, as far as memory depends on it.
#pragma once

#include "cost_model/inputs/stack_spec.h"

namespace ptdp {

/// Returns a stack that holds weights of `precision`, gradients and two moments of its accumulator,
/// and masters where weights are narrower. It has no workspace: operations take what a host's do.
[[nodiscard]] inline StackSpec runtime_stack(Precision precision) {
  const double element = element_bytes(precision);
  const double accumulator = accumulator_bytes(precision);
  const double masters = element < accumulator ? accumulator : 0.0;
  return {.precision = precision,
          .memory_model = MemoryModel::kPtdp,
          .weight_bytes = element,
          .gradient_bytes = accumulator,
          .optimizer_bytes = 2.0 * accumulator + masters};
}

}  // namespace ptdp
