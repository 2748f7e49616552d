// Dropout of a GPU: the host's masks bit for bit, and its values in f64.
#include <gtest/gtest.h>

#include "tests/kernels/cuda/device_values.h"
#include "tests/kernels/philox_reference.h"

namespace ptdp {
namespace {

constexpr Dropout kGpuDropout{.probability = 0.3, .key = 0x123456789ABCDEF0U};

struct GpuDropoutCase {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  TokenRange range = {};
};

std::vector<GpuDropoutCase> gpu_dropout_cases() {
  return {
      {0, 5, {}},
      {1, 1, {0, 0, 1, 4}},
      {6, 7, {3, 2, 2, 9}},
      {7, 36, {3, 2, 2, 9}},  // whole vectors of f32 only; half a position at the end
      {8, 136, {1, 0, 4, 2}},
      {3, 1025, {0, 1, 1, 8}},
      {4, 64, {std::int64_t{1} << 33, 5, 2, 4096}},  // numbers of elements beyond 2^32
  };
}

class DropoutOnGpu : public OnGpu {
 protected:
  /// On the host, in f64.
  Values expected(const Values& x, const Values& bias, const Values& residual,
                  const Dropout& dropout, const TokenRange& range, std::int64_t rows) {
    const auto of = [&](const Values& values) { return tensor_of(host(), kDouble, values); };
    const Tensor y = poisoned(host(), kDouble, static_cast<std::int64_t>(x.size()));
    host().bias_dropout_add(of(x), of(bias), of(residual), dropout, range, y, rows);
    return read_values(y);
  }
};

TEST_F(DropoutOnGpu, EqualsTheHostsWithAndWithoutBiasAndResidual) {
  for (const DataType type : kGpuTypes) {
    for (const auto& [rows, width, range] : gpu_dropout_cases()) {
      const Values x = random_values(rows * width, 1, type);
      for (const int present : {0, 1, 2, 3}) {
        const Values bias = (present & 1) != 0 ? random_values(width, 2, type) : Values{};
        const Values residual =
            (present & 2) != 0 ? random_values(rows * width, 3, type) : Values{};
        for (const double probability : {0.0, 0.3}) {
          const Dropout dropout{.probability = probability, .key = kGpuDropout.key};
          const Tensor y = poisoned_on_gpu(type, rows * width);
          gpu().bias_dropout_add(on_gpu(type, x), on_gpu(type, bias), on_gpu(type, residual),
                                 dropout, range, y, rows);
          expect_near_in_norm(values_of(y), expected(x, bias, residual, dropout, range, rows),
                              allowed_error(type), std::string(name_of(type)));
        }
      }
    }
  }
}

TEST_F(DropoutOnGpu, DropsTheElementsThatTheirNumbersSayForwardAndBackward) {
  for (const DataType type : kGpuTypes) {
    for (const auto& [rows, width, range] : gpu_dropout_cases()) {
      const Tensor ones = on_gpu(type, Values(static_cast<std::size_t>(rows * width), 1.0));
      const Tensor y = poisoned_on_gpu(type, rows * width);
      const Tensor dx = poisoned_on_gpu(type, rows * width);
      gpu().bias_dropout_add(ones, {}, {}, kGpuDropout, range, y, rows);
      gpu().dropout_backward(ones, kGpuDropout, range, dx, rows);
      Values masks(static_cast<std::size_t>(rows * width));
      for (std::int64_t i = 0; i < rows * width; ++i) {
        const std::int64_t row = i / width;
        const std::int64_t position = range.first_position + row / range.batch;
        const std::int64_t sample = range.first_sample + row % range.batch;
        const auto element =
            static_cast<std::uint64_t>((sample * range.seq_length + position) * width + i % width);
        masks[i] = rounded(mask_reference(kGpuDropout.key, kGpuDropout.probability, element),
                           DataType::kFloat32);
      }
      EXPECT_EQ(values_of(y), rounded(masks, type)) << name_of(type) << " " << rows << " " << width;
      EXPECT_EQ(values_of(dx), rounded(masks, type));
    }
  }
}

TEST_F(DropoutOnGpu, MayWriteOverItsInputOrTheResidual) {
  const TokenRange range{.batch = 2, .seq_length = 4};
  for (const DataType type : kGpuTypes) {
    for (const std::int64_t width : {33, 64}) {
      const Values values = random_values(8 * width, 1, type);
      const Tensor bias = on_gpu(type, random_values(width, 2, type));
      const Tensor x = on_gpu(type, values);
      const Tensor residual = on_gpu(type, random_values(8 * width, 3, type));
      const Tensor y = poisoned_on_gpu(type, 8 * width);
      gpu().bias_dropout_add(x, bias, residual, kGpuDropout, range, y, 8);
      const Values apart = values_of(y);
      gpu().bias_dropout_add(x, bias, residual, kGpuDropout, range, x, 8);
      EXPECT_EQ(values_of(x), apart);
      gpu().bias_dropout_add(on_gpu(type, values), bias, residual, kGpuDropout, range, residual, 8);
      EXPECT_EQ(values_of(residual), apart);
      gpu().dropout_backward(residual, kGpuDropout, range, residual, 8);
      gpu().dropout_backward(y, kGpuDropout, range, x, 8);
      EXPECT_EQ(values_of(residual), values_of(x));
    }
  }
}

// A part of the sequence that another rank holds, misaligned in memory: the same bits.
TEST_F(DropoutOnGpu, GivesTheSameBitsHoweverRowsAreCutAndAligned) {
  constexpr std::int64_t sequence = 6;
  constexpr std::int64_t batch = 4;
  constexpr std::int64_t width = 40;
  constexpr std::int64_t size = sequence * batch * width;
  const TokenRange all{.first_sample = 8, .batch = batch, .seq_length = sequence};
  for (const DataType type : kGpuTypes) {
    const Values x = random_values(size, 1, type);
    const Tensor whole = on_gpu(type, x);
    gpu().bias_dropout_add(whole, {}, {}, kGpuDropout, all, whole, sequence * batch);

    Values moved = x;
    moved.insert(moved.begin(), 0.0);
    const Tensor memory = on_gpu(type, moved);
    const std::int64_t third = sequence / 3 * batch;
    for (std::int64_t part = 0; part < 3; ++part) {
      TokenRange range = all;
      range.first_position = part * sequence / 3;
      const Buffer rows = memory.buffer().slice(1 + part * third * width, third * width);
      gpu().bias_dropout_add(rows, {}, {}, kGpuDropout, range, rows, third);
    }
    EXPECT_EQ(values_of(memory.buffer().slice(1, size)), values_of(whole)) << name_of(type);
  }
}

}  // namespace
}  // namespace ptdp
