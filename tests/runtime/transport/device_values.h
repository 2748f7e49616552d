// Moves numbers of a test into and out of a device's memory, in any type.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"

namespace ptdp {

/// Returns a tensor with these values, which must be exact in the type.
[[nodiscard]] inline Tensor uploaded(Backend& backend, DataType type,
                                     const std::vector<double>& values) {
  Tensor tensor(backend, type, static_cast<std::int64_t>(values.size()));
  if (type == DataType::kFloat64) {
    backend.copy_in(values.data(), tensor);
  } else if (type == DataType::kInt32) {
    const std::vector<std::int32_t> whole(values.begin(), values.end());
    backend.copy_in(whole.data(), tensor);
  } else {
    const std::vector<float> narrow(values.begin(), values.end());
    const Tensor wide(backend, DataType::kFloat32, tensor.buffer().size);
    backend.copy_in(narrow.data(), wide);
    if (type == DataType::kFloat32) {
      backend.copy(wide, tensor);
    } else {
      backend.convert(wide, tensor);
    }
  }
  return tensor;
}

/// Returns the values of a buffer; blocks until the lane in use is done.
[[nodiscard]] inline std::vector<double> downloaded(Backend& backend, Buffer buffer) {
  const auto size = static_cast<std::size_t>(buffer.size);
  if (buffer.type == DataType::kFloat64) {
    std::vector<double> values(size);
    backend.copy_out(buffer, values.data());
    return values;
  }
  if (buffer.type == DataType::kInt32) {
    std::vector<std::int32_t> values(size);
    backend.copy_out(buffer, values.data());
    return {values.begin(), values.end()};
  }
  const Tensor wide(backend, DataType::kFloat32, buffer.size);
  if (buffer.type == DataType::kFloat32) {
    backend.copy(buffer, wide);
  } else {
    backend.convert(buffer, wide);
  }
  std::vector<float> values(size);
  backend.copy_out(wide, values.data());
  return {values.begin(), values.end()};
}

}  // namespace ptdp
