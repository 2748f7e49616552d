// Copies numbers of the host into buffers of an accumulator type.
#pragma once

#include <span>
#include <vector>

#include "kernels/backend.h"

namespace ptdp {

/// Copies numbers into a buffer of type f32 or f64, rounded to nearest even. Sizes must be equal.
inline void copy_rounded(Backend& backend, std::span<const double> values, const Buffer& to) {
  if (to.type == DataType::kFloat64) {
    backend.copy_in(values.data(), to);
    return;
  }
  const std::vector<float> rounded(values.begin(), values.end());
  backend.copy_in(rounded.data(), to);
}

}  // namespace ptdp
