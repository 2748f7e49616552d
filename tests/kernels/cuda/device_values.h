// Numbers in tests of a GPU's operations: f64 on the test's side, buffers in the GPU's memory.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/host_values.h"

namespace ptdp {

inline constexpr std::array<DataType, 3> kGpuTypes = {DataType::kFloat32, DataType::kBFloat16,
                                                      DataType::kFloat16};

/// Tests with a GPU, real or emulated (emulated_gpu/): the one that the program is linked with.
class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (num_cuda_devices() == 0) {
      GTEST_SKIP() << "no GPU";
    }
    gpu_ = make_cuda_backend({.is_deterministic = true});
  }

  [[nodiscard]] Backend& gpu() const { return *gpu_; }
  /// The reference, in f64.
  [[nodiscard]] Backend& host() { return host_; }

  /// A buffer of the GPU that holds these values, rounded.
  [[nodiscard]] Tensor on_gpu(DataType type, const Values& values) {
    const Tensor staged = tensor_of(host_, type, values);
    Tensor tensor(*gpu_, type, staged.buffer().size);
    gpu_->copy_in(staged.buffer().data, tensor);
    return tensor;
  }
  /// A result's buffer, full of what is not a number.
  [[nodiscard]] Tensor poisoned_on_gpu(DataType type, std::int64_t size) {
    return on_gpu(type,
                  Values(static_cast<std::size_t>(size), std::numeric_limits<double>::quiet_NaN()));
  }
  [[nodiscard]] Values values_of(const Buffer& buffer) {
    const Tensor staged(host_, buffer.type, buffer.size);
    gpu_->copy_out(buffer, staged.buffer().data);
    return read_values(staged);
  }

 private:
  CpuBackend host_;
  std::unique_ptr<Backend> gpu_;
};

/// What a result of this type may differ by from that of f64 on the same inputs, in the norm.
inline double allowed_error(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return 1e-12;
    case DataType::kFloat32:
      return 1e-5;
    case DataType::kBFloat16:
      return 1e-2;
    case DataType::kFloat16:
      return 2e-3;
    case DataType::kInt32:
      return 0.0;
  }
  return 0.0;
}

/// ‖found − expected‖ / ‖expected‖.
inline double relative_error(const Values& found, const Values& expected) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return norm == 0.0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

inline void expect_near_in_norm(const Values& found, const Values& expected, double allowed,
                                const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  // Not a number is not within anything.
  EXPECT_TRUE(relative_error(found, expected) <= allowed)
      << what << ": relative error " << relative_error(found, expected) << ", allowed " << allowed;
}

}  // namespace ptdp
