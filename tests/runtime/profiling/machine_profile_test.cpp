// Tests of how a machine's constants are fitted to its measured times.
#include "runtime/profiling/machine_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

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
    // A quarter of it, of five products in place of two.
    times[{DeviceOperation::kAttentionBackward, {2, size, 64}}] =
        2.5 * 2.0 * 2 * size * size * 64 / 0.05e12;
  }
  GpuSpec gpu = machine;
  gpu.attention_rates = {{.kernel = "own", .forward = 0.9, .backward = 0.9},
                         {.kernel = "another", .forward = 0.5, .backward = 0.4}};
  gpu.memory_efficiency = 0.0;
  gpu.matmul_startup_depth = 0.0;
  // What the catalog says of the limit of power: the measured rate holds whatever it is.
  gpu.matmul_sustained = 0.5;
  gpu.low_bit_products = {{.format = LowBitFormat::kFp8, .efficiency = 0.6, .sustained = 0.4},
                          {.format = LowBitFormat::kNvfp4, .efficiency = 0.3}};
  gpu.measured_operations = measured_operations(times, Precision::kFp32);
  fit_constants(gpu, Precision::kFp32, "own");
  EXPECT_NEAR(gpu.matmul_startup_depth, 30.0, 3.0);
  EXPECT_NEAR(gpu.matmul_efficiency, 1.0, 0.02);
  EXPECT_EQ(gpu.matmul_sustained, 1.0);
  EXPECT_EQ(gpu.low_bit_products.front().sustained, 0.4);
  EXPECT_EQ(gpu.low_bit_products.back().sustained, 0.5);
  EXPECT_NEAR(gpu.memory_efficiency, 0.5, 1e-9);
  ASSERT_EQ(gpu.attention_rates.size(), 2U);
  EXPECT_EQ(gpu.attention_rates.front().kernel, "another");
  EXPECT_EQ(gpu.attention_rates.front().backward, 0.4);
  EXPECT_EQ(gpu.attention_rates.back().kernel, "own");
  EXPECT_NEAR(gpu.attention_rates.back().forward, 0.1, 1e-9);
  EXPECT_NEAR(gpu.attention_rates.back().backward, 0.25, 1e-9);
  EXPECT_EQ(gpu.peak_fp32, machine.peak_fp32);
}

// With little compute and 1 GB/s the time is that of memory: n² elements of 2 bytes twice, and sums
// of 4 bytes that are read and written.
TEST(FitConstants, CountsThatWeightGradientsAreAddedInF32) {
  GpuSpec machine{.peak_bf16 = teraflops(100.0),
                  .memory_bandwidth = gigabytes_per_second(1.0),
                  .num_multiprocessors = 1,
                  .matmul_efficiency = 1.0,
                  .matmul_memory_efficiency = 1.0,
                  .memory_efficiency = 1.0};
  OperationTimes times;
  for (const double n : {512.0, 1024.0}) {
    times[{DeviceOperation::kWeightGradientProduct, {n, n, n}}] = n * n * (2 + 2 + 4 + 4) / 1e9;
  }
  machine.measured_operations = measured_operations(times, Precision::kBf16);
  const auto efficiency_at = [&](double factor) {
    GpuSpec gpu = machine;
    OperationTimes slower = times;
    for (auto& [key, seconds] : slower) {
      seconds *= factor;
    }
    gpu.measured_operations = measured_operations(slower, Precision::kBf16);
    fit_constants(gpu, Precision::kBf16, "own");
    return gpu.matmul_efficiency;
  };
  EXPECT_NEAR(efficiency_at(1.0), 1.0, 0.01);
  EXPECT_NEAR(efficiency_at(2.0), 0.5, 0.005);
}

// With little compute and 1 GB/s the time is that of mk + kn + mn elements of 2 bytes. It is
// doubled here, whether a product is tall, wide or deep.
TEST(FitConstants, KnowsEverySideOfAProduct) {
  for (const OperationSizes& sizes :
       {OperationSizes{2048, 64, 256}, OperationSizes{64, 2048, 256}, OperationSizes{64, 256, 2048},
        OperationSizes{256, 64, 2048}}) {
    OperationTimes times;
    for (const double factor : {1.0, 2.0}) {
      const double m = factor * sizes[0];
      const double n = factor * sizes[1];
      const double k = factor * sizes[2];
      times[{DeviceOperation::kForwardProduct, {m, n, k}}] =
          2.0 * 2.0 * (m * k + k * n + m * n) / 1e9;
    }
    GpuSpec gpu{.peak_bf16 = teraflops(100.0),
                .memory_bandwidth = gigabytes_per_second(1.0),
                .num_multiprocessors = 1,
                .measured_operations = measured_operations(times, Precision::kBf16)};
    fit_constants(gpu, Precision::kBf16, "own");
    EXPECT_NEAR(gpu.matmul_efficiency, 0.5, 0.005) << sizes[0] << ' ' << sizes[1];
  }
}

TEST(MeasuredOperations, AreTablesOfWhatWasMeasuredAtTwoSizesAtLeast) {
  using enum DeviceOperation;
  const std::vector<MeasuredOperation> tables = measured_operations(
      {{{kLayerNorm, {8, 8, 1}}, 1.0}, {{kBias, {8, 8, 1}}, 2.0}, {{kBias, {16, 8, 1}}, 3.0}},
      Precision::kFp16);
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(tables.front().operation(), kBias);
  EXPECT_EQ(tables.front().precision(), Precision::kFp16);
  ASSERT_EQ(tables.front().points().size(), 2U);
  EXPECT_EQ(tables.front().points().back().time, Seconds(3.0));
}

TEST(RaisePeak, IsOfOnePrecisionAndNeverLowers) {
  GpuSpec gpu{.peak_fp16 = teraflops(3.0), .peak_bf16 = teraflops(3.0)};
  raise_peak(gpu, Precision::kBf16, teraflops(4.0));
  raise_peak(gpu, Precision::kFp16, teraflops(2.0));
  raise_peak(gpu, Precision::kFp64, teraflops(1.0));
  raise_peak(gpu, Precision::kFp32, teraflops(5.0));
  EXPECT_EQ(gpu.peak_fp16, teraflops(3.0));
  EXPECT_EQ(gpu.peak_bf16, teraflops(4.0));
  EXPECT_EQ(gpu.peak_fp32, teraflops(5.0));
  EXPECT_EQ(gpu.peak_fp64, teraflops(1.0));
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

// A spread of a quarter and a core of which a twentieth goes to others are as usual.
TEST(MachineProfile, WarnsOfAMachineThatIsBusyOrUnsteady) {
  EXPECT_EQ(MachineProfile{.spread = 0.03}.warning(), "");
  EXPECT_EQ((MachineProfile{.spread = 0.25, .processor_share = 0.95}.warning()), "");
  EXPECT_EQ(MachineProfile{.spread = 0.26}.warning(),
            "repeated times lay 26 % apart; expected a steady machine");
  EXPECT_EQ((MachineProfile{.spread = 0.5, .processor_share = 0.94}.warning()),
            "other processes took 6 % of the core; expected a quiet machine");
}

TEST(MachineProfile, SaysHowAHostWasMeasured) {
  ProfileOptions options{.device = host_device({.cores = 6, .most_ranks = 8}),
                         .precisions = {Precision::kFp32, Precision::kBf16},
                         .description = "A processor, today."};
  MachineProfile profile{.spread = 0.0123, .processor_share = 0.987, .left_out = {"a", "b"}};
  profile.cluster.default_stack = "ptdp-cpu";
  EXPECT_EQ(
      describe_measurement(options, profile),
      "A processor, today. Measured: the operations of ptdp-cpu's layers in fp32, bf16 on one "
      "core, alone and with all 6 busy, as training steps of small models ran them; copies; "
      "messages, and collectives of up to 8 ranks, between steps of compute. Peaks are the "
      "best products; the other constants are fitted to the measured operations, which "
      "correct them. Repeated times lay 1.2 % apart (quartiles, in the median); a rank had "
      "98.7 % of its core. Left out, since they contradict the others: 2 times. nic: none, "
      "one process is one node.");
}

TEST(MachineProfile, SaysHowAGpuWasMeasured) {
  const ProfileOptions options{
      .device = gpu_device({.name = "a GPU",
                            .links = {.name = "nodes"},
                            .remarks = [] { return std::vector<std::string>{"slow"}; }}),
      .precisions = {Precision::kBf16},
      .description = "A GPU."};
  MachineProfile profile{
      .products = {{Precision::kBf16, teraflops(712.34)}, {Precision::kFp32, teraflops(50.0)}},
      .launches = {.device = 1.5e-6, .by_one = 4.5e-6, .of_host = 3.25e-6, .in_graph = 0.25e-6},
      .host_copies = {{.bytes = 1'000'000,
                       .in = gigabytes_per_second(12.0),
                       .out = gigabytes_per_second(9.0)}},
      .spread = 0.5,
      .conditions = {.num_samples = 1,
                     .clock = {1700.0, 1700.0, 1700.0},
                     .memory_clock = {2600.0, 2600.0, 2600.0},
                     .power = {500.0, 500.0, 500.0},
                     .temperature = {50.0, 50.0, 50.0}},
      .too_large = {"a"},
      .too_late = {"b", "c"}};
  profile.cluster.default_stack = "ptdp-cuda";
  EXPECT_EQ(describe_measurement(options, profile),
            "A GPU. Measured: the operations of ptdp-cuda's layers in bf16 on one GPU, as training "
            "steps of small models ran them; copies. Passes were launched as graphs. The smallest "
            "operation: 1.50 us in a graph, 4.50 us one by one; launching it takes 3.25 us of the "
            "host's thread, as part of a graph 0.25 us. Large products: bf16 712.3, fp32 50 "
            "TFLOP/s. 1 MB from the host (not pinned): 12.0 GB/s, to it 9.0 GB/s. Peaks are the "
            "best products; the other constants are fitted to the measured operations, which "
            "correct them. Repeated times lay 50.0 % apart (quartiles, in the median). While "
            "measuring: clock 1700 MHz, memory clock 2600 MHz, 500 W, 50 C. Remarked: slow. Too "
            "large for its "
            "memory: 1 of the models. Not reached in that time: 2 of the models. One GPU was "
            "measured: its node, NVLink, network and "
            "collectives are those of nodes.");
  profile.spread.reset();
  EXPECT_NE(describe_measurement(options, profile)
                .find(" Steps were repeated too few times to say how far apart they lay. While"),
            std::string::npos);
}

// Powers of two below the cores, and all of them; ranks of collectives up to what is asked for.
TEST(HostDevice, KeepsCoresBusyInPowersOfTwoAndAll) {
  const auto busy = [](int cores) { return host_device({.cores = cores}).busy_cores; };
  EXPECT_EQ(busy(1), (std::vector<int>{}));
  EXPECT_EQ(busy(2), (std::vector<int>{2}));
  EXPECT_EQ(busy(4), (std::vector<int>{2, 4}));
  EXPECT_EQ(busy(6), (std::vector<int>{2, 4, 6}));
  EXPECT_EQ(host_device({.most_ranks = 2}).link_ranks, (std::vector<int>{2}));
  EXPECT_EQ(host_device({.most_ranks = 16}).link_ranks, (std::vector<int>{2, 4, 8, 16}));
  EXPECT_EQ(host_device({.cores = 6}).cluster.cores_per_node, 6);
}

// Below five seconds; the last size says the bandwidth, and is the largest.
TEST(Devices, AreMeasuredAtSmallerSizesInAShortTime) {
  EXPECT_EQ(host_device({.seconds = 5.0}).copies.back(), 1 << 25);
  EXPECT_EQ(host_device({.seconds = 5.0}).peak_size, 512);
  EXPECT_EQ(host_device({.seconds = 4.9}).copies.back(), 1 << 22);
  EXPECT_EQ(host_device({.seconds = 4.9}).peak_size, 256);
  const std::vector<std::int64_t> long_copies = gpu_device({.seconds = 5.0}).copies;
  EXPECT_EQ(long_copies.front(), 1 << 10);
  EXPECT_EQ(long_copies.back(), std::int64_t{1} << 31);
  EXPECT_TRUE(std::is_sorted(long_copies.begin(), long_copies.end()));
  EXPECT_EQ(gpu_device({.seconds = 4.9}).copies.back(), 1 << 26);
  EXPECT_EQ(gpu_device({.seconds = 4.9}).peak_size, 2048);
  EXPECT_DOUBLE_EQ(gpu_device({.seconds = 20.0}).warm_up, 1.0);   // a twentieth,
  EXPECT_DOUBLE_EQ(gpu_device({.seconds = 120.0}).warm_up, 4.0);  // and 4 s at most
}

TEST(MachineProfile, WarnsOfAClockThatFellAndOfHeat) {
  const auto round = [](double clock) {
    return DeviceConditions{.num_samples = 9, .clock = {clock, clock, clock}};
  };
  EXPECT_EQ(MachineProfile{.rounds = {round(1900.0)}}.warning(), "");
  EXPECT_EQ((MachineProfile{.rounds = {round(1900.0), round(1850.0)}}.warning()), "");
  // The clock falls from the first to the last of three rounds.
  EXPECT_NE((MachineProfile{.rounds = {round(2000.0), round(1930.0), round(1880.0)}}.warning()),
            "");
  EXPECT_EQ((MachineProfile{.rounds = {round(1700.0), round(1900.0)}}.warning()), "");
  const std::string fell = MachineProfile{.rounds = {round(1900.0), round(1710.0)}}.warning();
  EXPECT_NE(fell.find("fell by 10 %"), std::string::npos) << fell;
  EXPECT_EQ((MachineProfile{.conditions = {.num_samples = 9, .held_by_power = 0.5}}.warning()), "")
      << "a GPU at its power limit is as it will be in training";
  EXPECT_NE((MachineProfile{.conditions = {.num_samples = 9, .held_by_heat = 0.1}}.warning()), "");
}

}  // namespace
}  // namespace ptdp
