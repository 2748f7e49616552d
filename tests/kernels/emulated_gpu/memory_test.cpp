// Tests of a GPU with little memory.
#include <cuda_runtime_api.h>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_backend.h"

namespace ptdp {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

class LittleMemory : public testing::Test {
 protected:
  void SetUp() override {
    emulated_gpu::set_memory(100 * kMiB);
    gpu_ = make_cuda_backend({});
  }
  void TearDown() override {
    gpu_.reset();
    EXPECT_EQ(emulated_gpu::memory_in_use(), 0U);
    emulated_gpu::set_memory(std::size_t{1} << 40U);
  }

  [[nodiscard]] Tensor block(std::size_t mebibytes) const {
    return {*gpu_, DataType::kFloat32, static_cast<std::int64_t>(mebibytes * kMiB / 4)};
  }

  [[nodiscard]] Backend& gpu() const { return *gpu_; }

 private:
  std::unique_ptr<Backend> gpu_;
};

// Two segments of 40 MiB that are free give way to one of 80.
TEST_F(LittleMemory, IsAskedForAgainWhereFreeSegmentsAreTooSmall) {
  Tensor first = block(40);
  Tensor second = block(40);
  gpu().fill(first, 1.0);
  first.reset();
  second.reset();
  const Tensor both = block(80);
  EXPECT_EQ(emulated_gpu::memory_in_use(), 80 * kMiB);
}

TEST_F(LittleMemory, EndsWithAMessageAndGoesOn) {
  const Tensor most = block(60);
  try {
    const Tensor more = block(60);
    FAIL() << "allocated";
  } catch (const OutOfMemory& error) {
    EXPECT_STREQ(error.what(),
                 "out of memory on GPU 0: 62914560 bytes asked for, 62914560 in use, 62914560 "
                 "reserved, 41943040 of 104857600 free");
  }
  EXPECT_EQ(gpu().bytes_in_use(), static_cast<std::int64_t>(60 * kMiB));
  const Tensor rest = block(30);
  gpu().fill(rest, 2.0);
  float value = 0.0F;
  gpu().copy_out(rest.buffer().slice(7, 1), &value);
  EXPECT_EQ(value, 2.0F);
}

}  // namespace
}  // namespace ptdp
