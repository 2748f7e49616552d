// Translates a plan's precision into the element type of buffers.
#pragma once

#include "cost_model/inputs/stack_spec.h"
#include "kernels/data_type.h"

namespace ptdp {

/// Returns the element type of weights and activations under `precision`. TF32 is fp32 in memory.
[[nodiscard]] constexpr DataType data_type_of(Precision precision) {
  switch (precision) {
    case Precision::kFp64:
      return DataType::kFloat64;
    case Precision::kFp32:
    case Precision::kTf32:
      return DataType::kFloat32;
    case Precision::kBf16:
      return DataType::kBFloat16;
    case Precision::kFp16:
      return DataType::kFloat16;
  }
  return DataType::kFloat32;
}

}  // namespace ptdp
