// Times single operations on a GPU beside the cost model's predictions: the matrix products of the
// shipped models, element-wise traffic and kernel launches. tools/gpu-check keeps the results.
#include <benchmark/benchmark.h>

#include <array>
#include <iostream>
#include <set>
#include <string>
#include <tuple>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/operations/gemm.h"
#include "cost_model/operations/memory_bound.h"
#include "kernels/cuda/gpu_probe.h"

namespace ptdp {
namespace {

constexpr std::int64_t kProbeMemory = std::int64_t{16} << 30;
constexpr int kRepeats = 10;

/// The profile that predicts for a GPU, found by a part of its driver's name. An H200 is an H100
/// with faster memory: its products are comparable, its traffic is not.
struct ProfileOfGpu {
  const char* device;
  const char* profile;
};
constexpr std::array kProfiles = {ProfileOfGpu{"A100", "a100-80gb-sxm"},
                                  ProfileOfGpu{"H100", "h100-80gb-sxm"},
                                  ProfileOfGpu{"H200", "h100-80gb-sxm"}};

struct Linear {
  LinearProduct product;
  std::int64_t tokens;
  std::int64_t outputs;
  std::int64_t inputs;

  [[nodiscard]] auto key() const { return std::tuple(product, tokens, outputs, inputs); }
  friend bool operator<(const Linear& a, const Linear& b) { return a.key() < b.key(); }
};

const char* name_of(LinearProduct product) {
  switch (product) {
    case LinearProduct::kForward:
      return "forward";
    case LinearProduct::kInputGradient:
      return "input_gradient";
    case LinearProduct::kWeightGradient:
      return "weight_gradient";
  }
  return "";
}

MatmulShape shape_of(const Linear& linear) {
  switch (linear.product) {
    case LinearProduct::kForward:
      return {.m = linear.tokens, .n = linear.outputs, .k = linear.inputs};
    case LinearProduct::kInputGradient:
      return {.m = linear.tokens, .n = linear.inputs, .k = linear.outputs};
    case LinearProduct::kWeightGradient:
      return {.m = linear.outputs, .n = linear.inputs, .k = linear.tokens};
  }
  return {};
}

/// Returns the linear layers of models from 1.7B to 1T as plans divide them.
std::set<Linear> linears_of_plans() {
  std::set<Linear> linears;
  for (const char* name : {"1.7B", "7.5B", "18B", "gpt3-175b", "1T"}) {
    const TransformerConfig model = find_model(name).config;
    const std::int64_t h = model.hidden_size;
    for (const std::int64_t tp : {1, 2, 4, 8}) {
      for (const std::int64_t sequences : {1, 2, 4, 8}) {
        const std::int64_t tokens = sequences * model.seq_length;
        for (const auto product : {LinearProduct::kForward, LinearProduct::kInputGradient,
                                   LinearProduct::kWeightGradient}) {
          linears.insert({product, tokens, 3 * h / tp, h});
          linears.insert({product, tokens, h, h / tp});
          linears.insert({product, tokens, 4 * h / tp, h});
          linears.insert({product, tokens, h, 4 * h / tp});
        }
      }
    }
  }
  return linears;
}

/// Runs `seconds_of_one` as often as Google Benchmark asks; returns the mean [s].
template <typename Measure>
double measure(benchmark::State& state, const Measure& seconds_of_one) {
  double total = 0.0;
  while (state.KeepRunning()) {
    const double seconds = seconds_of_one();
    state.SetIterationTime(seconds);
    total += seconds;
  }
  return total / static_cast<double>(state.iterations());
}

/// Adds the predicted time and its error to the measured time, if a profile predicts.
void add_prediction(benchmark::State& state, double measured, Seconds predicted) {
  state.counters["predicted_us"] = predicted.value() * 1e6;
  state.counters["error"] = predicted.value() / measured - 1.0;
}

void register_linear(const Linear& linear, GpuProbe& probe, const GpuSpec* gpu) {
  const std::string name = std::string("linear/") + name_of(linear.product) + '/' +
                           std::to_string(linear.tokens) + 'x' + std::to_string(linear.outputs) +
                           'x' + std::to_string(linear.inputs);
  benchmark::RegisterBenchmark(
      name.c_str(),
      [linear, &probe, gpu](benchmark::State& state) {
        const double measured = measure(state, [&] {
          return probe.linear_seconds(linear.product, linear.tokens, linear.outputs, linear.inputs,
                                      kRepeats);
        });
        const MatmulShape shape = shape_of(linear);
        state.counters["TFLOPs"] = matmul_flops(shape).value() / measured / 1e12;
        if (gpu != nullptr) {
          add_prediction(state, measured, matmul_time(shape, *gpu, gpu->peak_bf16));
        }
      })
      ->UseManualTime()
      ->MinTime(0.05)
      ->Unit(benchmark::kMicrosecond);
}

void register_traffic(std::int64_t bytes, GpuProbe& probe, const GpuSpec* gpu) {
  const auto run = [bytes, gpu](benchmark::State& state, const auto& seconds_of_one) {
    const double measured = measure(state, seconds_of_one);
    state.counters["GBps"] = static_cast<double>(bytes) / measured / 1e9;
    if (gpu != nullptr) {
      add_prediction(state, measured, memory_bound_time(Bytes(static_cast<double>(bytes)), *gpu));
    }
  };
  const std::string size = std::to_string(bytes);
  benchmark::RegisterBenchmark(("element_wise/" + size).c_str(),
                               [bytes, run, &probe](benchmark::State& state) {
                                 run(state,
                                     [&] { return probe.element_wise_seconds(bytes, kRepeats); });
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark(("copy/" + size).c_str(),
                               [bytes, run, &probe](benchmark::State& state) {
                                 run(state, [&] { return probe.copy_seconds(bytes, kRepeats); });
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

void register_launches(GpuProbe& probe, const GpuSpec* gpu) {
  benchmark::RegisterBenchmark("empty_kernel",
                               [&probe, gpu](benchmark::State& state) {
                                 const double measured = measure(
                                     state, [&] { return probe.empty_kernel_seconds(1000); });
                                 if (gpu != nullptr) {
                                   add_prediction(state, measured, gpu->kernel_latency);
                                 }
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark("launch_by_host",
                               [&probe](benchmark::State& state) {
                                 measure(state, [&] { return probe.launch_host_seconds(1000); });
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  if (num_gpus() == 0) {
    std::cerr << "gpu_benchmark: no GPU here\n";
    return 4;
  }
  GpuProbe probe(kProbeMemory);
  GpuSpec spec;
  const GpuSpec* gpu = nullptr;
  for (const auto& [device, profile] : kProfiles) {
    if (probe.gpu().name.find(device) != std::string::npos) {
      spec = find_gpu(profile);
      gpu = &spec;
    }
  }
  benchmark::AddCustomContext("gpu", probe.gpu().name);
  benchmark::AddCustomContext("cuda_driver", std::to_string(probe.gpu().driver_version));
  benchmark::AddCustomContext("cuda_runtime", std::to_string(probe.gpu().runtime_version));
  benchmark::AddCustomContext("cublas", std::to_string(probe.gpu().cublas_version));
  benchmark::AddCustomContext("predicted_by", gpu == nullptr ? "no profile" : gpu->name);

  for (const Linear& linear : linears_of_plans()) {
    register_linear(linear, probe, gpu);
  }
  for (const std::int64_t mebibytes : {1, 8, 64, 512, 4096}) {
    register_traffic(mebibytes << 20, probe, gpu);
  }
  register_launches(probe, gpu);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace ptdp

int main(int argc, char** argv) {
  try {
    return ptdp::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "gpu_benchmark: " << error.what() << '\n';
    return 4;
  }
}
