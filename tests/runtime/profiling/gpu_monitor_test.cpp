// Tests of a GPU's samples from the management library.
#include "kernels/cuda/gpu_monitor.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ptdp {
namespace {

TEST(GpuMonitor, SamplesWhatTheLibrarySays) {
  GpuMonitor monitor("0000:1b:00.0", PTDP_FAKE_NVML);
  ASSERT_TRUE(monitor.is_watching());
  std::vector<DeviceSample> samples;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (samples.size() < 2 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (const DeviceSample& sample : monitor.take()) {
      samples.push_back(sample);
    }
  }
  ASSERT_GE(samples.size(), 2U);
  for (const DeviceSample& sample : samples) {
    EXPECT_DOUBLE_EQ(sample.clock, 1755.0);
    EXPECT_DOUBLE_EQ(sample.memory_clock, 3201.0);
    EXPECT_DOUBLE_EQ(sample.power, 650.5);
    EXPECT_DOUBLE_EQ(sample.temperature, 61.0);
    EXPECT_EQ(sample.held_back_by, kHeldByPower | kHeldByHeat);
  }
}

TEST(GpuMonitor, HasNothingToSayOfAGpuThatIsNotThere) {
  GpuMonitor monitor("0000:1c:00.0", PTDP_FAKE_NVML);
  EXPECT_FALSE(monitor.is_watching());
  EXPECT_TRUE(monitor.take().empty());
}

TEST(GpuMonitor, HasNothingToSayWithoutTheLibrary) {
  GpuMonitor monitor("0000:1b:00.0", "libno-such-library.so");
  EXPECT_FALSE(monitor.is_watching());
  EXPECT_TRUE(monitor.take().empty());
}

}  // namespace
}  // namespace ptdp
