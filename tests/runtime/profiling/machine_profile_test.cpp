#include "runtime/profiling/machine_profile.h"

#include <gtest/gtest.h>

#include "cost_model/inputs/scenario.h"
#include "cost_model/layer/element_wise.h"
#include "cost_model/operations/gemm.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/profiling/gpu_fit.h"

namespace ptdp {
namespace {

TEST(FactorsBetween, CompareWhatBothMeasuredByKind) {
  using enum DeviceOperation;
  const OperationTimes base = {{{kForwardProduct, {8, 8, 8}}, 1.0},
                               {{kForwardProduct, {16, 8, 8}}, 3.0},
                               {{kLayerNorm, {8, 8, 1}}, 2.0},
                               {{kAdamW, {1, 8, 1}}, 1.0}};
  const OperationTimes busy = {{{kForwardProduct, {8, 8, 8}}, 2.0},
                               {{kForwardProduct, {16, 8, 8}}, 4.0},
                               {{kBias, {8, 8, 1}}, 100.0},
                               {{kAdamW, {1, 8, 1}}, 1.75}};
  const BusyCores factors = factors_between(busy, base);
  EXPECT_DOUBLE_EQ(factors.matmul, 1.5);
  EXPECT_DOUBLE_EQ(factors.attention, 1.0);
  EXPECT_DOUBLE_EQ(factors.memory_bound, 1.0) << "none that both have";
  EXPECT_DOUBLE_EQ(factors.optimizer, 1.75);
}

// Times that a known machine would take: what the fit must find again.
TEST(FitConstants, FindsTheConstantsThatMadeTheTimes) {
  GpuSpec machine{.peak_fp32 = teraflops(0.2),
                  .memory_bandwidth = gigabytes_per_second(40.0),
                  .num_multiprocessors = 1,
                  .matmul_efficiency = 1.0,
                  .matmul_startup_depth = 30.0,
                  .matmul_wave_overlap = 1.0,
                  .matmul_tile = MatmulTile{.rows = 16, .columns = 16},
                  .matmul_memory_efficiency = 1.0,
                  .memory_efficiency = 0.5};
  OperationTimes times;
  for (const double size : {64.0, 256.0, 1024.0}) {
    const auto n = static_cast<std::int64_t>(size);
    const MatmulShape shape = {.m = n, .n = n, .k = n, .element_bytes = 4, .output_bytes = 4};
    times[{DeviceOperation::kForwardProduct, {size, size, size}}] =
        matmul_time(shape, machine, machine.peak_fp32).value();
    times[{DeviceOperation::kLayerNorm, {size, 64, 1}}] =
        element_wise_time(DeviceOperation::kLayerNorm, size, 64, machine, Precision::kFp32).value();
    // A tenth of the peak, of the causal half.
    times[{DeviceOperation::kAttention, {2, size, 64}}] = 2.0 * 2 * size * size * 64 / 0.02e12;
  }
  GpuSpec gpu = machine;
  gpu.memory_efficiency = 0.0;
  gpu.matmul_startup_depth = 0.0;
  gpu.measured_operations = measured_operations(times, Precision::kFp32);
  fit_constants(gpu, Precision::kFp32, "own");
  EXPECT_NEAR(gpu.matmul_startup_depth, 30.0, 3.0);
  EXPECT_NEAR(gpu.matmul_efficiency, 1.0, 0.02);
  EXPECT_NEAR(gpu.memory_efficiency, 0.5, 1e-9);
  ASSERT_EQ(gpu.attention_rates.size(), 1U);
  EXPECT_NEAR(gpu.attention_rates.front().forward, 0.1, 1e-9);
  EXPECT_EQ(gpu.peak_fp32, machine.peak_fp32);
}

TEST(ProfileMachine, EndsWithNothingWhereItIsCancelled) {
  ProfileOptions options{
      .device = host_device({.cores = 1,
                             .most_ranks = 2,
                             .memory = Bytes(kGibi),
                             .seconds = 0.1,
                             .make_backend = [] { return std::make_unique<CpuBackend>(); }}),
      .precisions = {Precision::kFp32},
      .seconds = 0.1,
      .is_cancelled = [] { return true; }};
  EXPECT_FALSE(profile_machine(options).has_value());
}

TEST(MachineProfile, WarnsOfAMachineThatIsBusyOrUnsteady) {
  EXPECT_EQ(MachineProfile{.spread = 0.03}.warning(), "");
  EXPECT_NE(MachineProfile{.spread = 0.5}.warning().find("50 %"), std::string::npos);
  EXPECT_NE(MachineProfile{.processor_share = 0.6}.warning().find("40 %"), std::string::npos);
}

TEST(MachineProfile, WarnsOfAClockThatFellAndOfHeat) {
  const auto round = [](double clock) {
    return DeviceConditions{.num_samples = 9, .clock = {clock, clock, clock}};
  };
  EXPECT_EQ(MachineProfile{.rounds = {round(1900.0)}}.warning(), "");
  EXPECT_EQ((MachineProfile{.rounds = {round(1900.0), round(1850.0)}}.warning()), "");
  EXPECT_EQ((MachineProfile{.rounds = {round(1700.0), round(1900.0)}}.warning()), "");
  const std::string fell = MachineProfile{.rounds = {round(1900.0), round(1710.0)}}.warning();
  EXPECT_NE(fell.find("fell by 10 %"), std::string::npos) << fell;
  EXPECT_EQ((MachineProfile{.conditions = {.num_samples = 9, .held_by_power = 0.5}}.warning()), "")
      << "a GPU at its power limit is as it will be in training";
  EXPECT_NE((MachineProfile{.conditions = {.num_samples = 9, .held_by_heat = 0.1}}.warning()), "");
}

}  // namespace
}  // namespace ptdp
