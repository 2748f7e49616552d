// Which device a run is on: what is asked for, what the plan is for, what there is. The GPUs are
// this test's.
#include "tools/run_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cost_model/error.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

bool is_built_with_cuda = true;
std::vector<Gpu> gpus_here;

}  // namespace

bool has_cuda() {
  return is_built_with_cuda;
}

std::vector<Gpu> usable_gpus() {
  return gpus_here;
}

namespace {

constexpr Bytes kMemory{100e9};

Plan plan_for(int num_multiprocessors) {
  Plan plan;
  plan.scenario.cluster.gpu.num_multiprocessors = num_multiprocessors;
  return plan;
}
const Plan kForGpus = plan_for(132);
const Plan kForHost = plan_for(1);

/// What choosing throws; "" where it does not.
struct Refusal {
  std::string message;
  ExitStatus status = ExitStatus::kBug;
};
Refusal refusal_of(std::optional<DeviceKind> asked, const Plan& plan) {
  try {
    static_cast<void>(choose_device(asked, plan, /*shrinks=*/false));
    return {};
  } catch (const Error& error) {
    return {error.what(), error.status()};
  }
}

class RunDeviceChoice : public testing::Test {
 protected:
  RunDeviceChoice() {
    is_built_with_cuda = true;
    gpus_here = {{"GPU A", kMemory}, {"GPU A", kMemory}};
  }
};

TEST_F(RunDeviceChoice, IsAGpuWhereThePlanIsForGpusAndOneIsThere) {
  EXPECT_TRUE(choose_device({}, kForGpus, /*shrinks=*/false).is_gpu());
  EXPECT_FALSE(choose_device({}, kForGpus, /*shrinks=*/true).is_gpu());
  EXPECT_FALSE(choose_device({}, kForHost, /*shrinks=*/false).is_gpu());
  gpus_here.clear();
  EXPECT_FALSE(choose_device({}, kForGpus, /*shrinks=*/false).is_gpu());
}

TEST_F(RunDeviceChoice, IsWhatIsAskedFor) {
  EXPECT_FALSE(choose_device(DeviceKind::kCpu, kForGpus, /*shrinks=*/false).is_gpu());
  EXPECT_TRUE(choose_device(DeviceKind::kCuda, kForHost, /*shrinks=*/false).is_gpu());
  EXPECT_TRUE(choose_device(DeviceKind::kCuda, kForGpus, /*shrinks=*/true).is_gpu());
}

TEST_F(RunDeviceChoice, RefusesAGpuThatIsNotThere) {
  gpus_here.clear();
  const Refusal none = refusal_of(DeviceKind::kCuda, kForGpus);
  EXPECT_THAT(none.message, HasSubstr("--device cuda: expected a GPU"));
  EXPECT_EQ(none.status, ExitStatus::kRuntimeFault);
  is_built_with_cuda = false;
  const Refusal not_built = refusal_of(DeviceKind::kCuda, kForGpus);
  EXPECT_THAT(not_built.message, HasSubstr("built without CUDA"));
  EXPECT_EQ(not_built.status, ExitStatus::kBadInput);
}

TEST_F(RunDeviceChoice, SpreadsRanksOverGpusAndSaysWhereTheyShare) {
  const RunDevice device = choose_device({}, kForGpus, /*shrinks=*/false);
  EXPECT_EQ(device.gpu_of(0), 0);
  EXPECT_EQ(device.gpu_of(1), 1);
  EXPECT_EQ(device.gpu_of(2), 0);
  EXPECT_EQ(device.memory(), 2.0 * kMemory);
  EXPECT_EQ(sharing_note(device, 2), "");
  EXPECT_EQ(sharing_note(device, 3), "3 ranks share 2 GPUs: functional, timing not representative");
  EXPECT_EQ(sharing_note(RunDevice(), 3), "");
}

// A kernel that adds what another rank sent reads that rank's memory.
TEST_F(RunDeviceChoice, LetsThreadsShareTheFirstGpu) {
  const RunDevice device = shared_by_threads(choose_device({}, kForGpus, /*shrinks=*/false));
  EXPECT_EQ(device.gpu_of(1), 0);
  EXPECT_EQ(device.memory(), kMemory);
  EXPECT_EQ(sharing_note(device, 2), "2 ranks share 1 GPU: functional, timing not representative");
  EXPECT_FALSE(shared_by_threads(RunDevice()).is_gpu());
}

TEST_F(RunDeviceChoice, NamesEachKindOfGpuOnce) {
  EXPECT_EQ(choose_device({}, kForGpus, /*shrinks=*/false).name(), "cuda: GPU A");
  gpus_here.push_back({"GPU B", kMemory});
  EXPECT_EQ(choose_device({}, kForGpus, /*shrinks=*/false).name(), "cuda: GPU A, GPU B");
  EXPECT_EQ(RunDevice().name(), "cpu");
}

}  // namespace
}  // namespace ptdp
