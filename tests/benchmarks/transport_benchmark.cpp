// Times messages and all-reduces between threads, and reports the bandwidth that a time means.
// `bus_bandwidth` of an all-reduce is 2(n−1)/n·S/t, as in nccl-tests (doc/PERFORMANCE.md). The
// ceiling of both is what `copy` reaches, since a message is one copy at least.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/launch/launch.h"
#include "tests/benchmarks/there_and_back.h"

namespace ptdp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatches = 21;

// Times `operation` on all ranks of a world: the time of one operation on rank 0 in the median
// batch.
void time_operation(benchmark::State& state, const RankLaunch& launch, std::int64_t bytes,
                    const std::function<void(Communicator&, Buffer)>& operation) {
  const auto batch = static_cast<int>(std::clamp<std::int64_t>((8 << 20) / (bytes + 1), 1, 200));
  for ([[maybe_unused]] auto _ : state) {
    std::vector<double> times;
    run_ranks(launch, [&](Communicator& world, Backend& backend) {
      const Tensor tensor(backend, DataType::kFloat32, bytes / 4);
      backend.fill(tensor, 0.0);
      operation(world, tensor);
      for (int i = 0; i < kBatches; ++i) {
        world.barrier();
        const Clock::time_point begin = Clock::now();
        for (int k = 0; k < batch; ++k) {
          operation(world, tensor);
        }
        if (world.rank() == 0) {
          times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
        }
      }
    });
    std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
    state.SetIterationTime(times[kBatches / 2] / batch);
  }
}

RankLaunch ranks(std::int64_t size, CollectiveAlgorithm algorithm) {
  return {.size = static_cast<int>(size), .algorithm = algorithm, .make_backend = [] {
            return std::make_unique<CpuBackend>();
          }};
}

benchmark::Counter rate(double bytes) {
  return {bytes, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000};
}

// Times messages there and back between neighboring ranks.
void message(benchmark::State& state) {
  const std::int64_t bytes = state.range(1);
  time_operation(state, ranks(state.range(0), CollectiveAlgorithm::kRing), bytes, there_and_back);
  state.counters["bandwidth"] = rate(2.0 * static_cast<double>(bytes));
}

void all_reduce(benchmark::State& state, CollectiveAlgorithm algorithm) {
  const std::int64_t n = state.range(0);
  const std::int64_t bytes = state.range(1);
  time_operation(state, ranks(n, algorithm), bytes, [](Communicator& world, Buffer buffer) {
    world.all_reduce(buffer, Reduction::kSum);
  });
  state.counters["bus_bandwidth"] =
      rate(2.0 * static_cast<double>(n - 1) / static_cast<double>(n) * static_cast<double>(bytes));
}

void barrier(benchmark::State& state) {
  time_operation(state, ranks(state.range(0), CollectiveAlgorithm::kRing), 0,
                 [](Communicator& world, Buffer) { world.barrier(); });
}

void copy(benchmark::State& state) {
  CpuBackend backend;
  const std::int64_t bytes = state.range(0);
  const Tensor from(backend, DataType::kFloat32, bytes / 4);
  const Tensor to(backend, DataType::kFloat32, bytes / 4);
  backend.fill(from, 0.0);
  for ([[maybe_unused]] auto _ : state) {
    backend.copy(from, to);
  }
  state.counters["bandwidth"] = rate(static_cast<double>(bytes));
}

constexpr std::int64_t kSmallest = 8;
constexpr std::int64_t kLargest = std::int64_t{16} << 20;

BENCHMARK(copy)->RangeMultiplier(8)->Range(32 << 10, kLargest);
BENCHMARK(message)
    ->ArgsProduct({{2, 8}, {kSmallest, 4 << 10, 256 << 10, 2 << 20, kLargest}})
    ->ArgNames({"ranks", "bytes"})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(all_reduce, ring, CollectiveAlgorithm::kRing)
    ->ArgsProduct({{2, 8}, {kSmallest, 32 << 10, 256 << 10, 2 << 20, kLargest}})
    ->ArgsProduct({{64, 512}, {kSmallest, 32 << 10}})
    ->ArgNames({"ranks", "bytes"})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(all_reduce, ordered, CollectiveAlgorithm::kOrdered)
    ->ArgsProduct({{2, 8}, {kSmallest, 32 << 10, 256 << 10, 2 << 20, kLargest}})
    ->ArgsProduct({{64, 512}, {kSmallest, 32 << 10}})
    ->ArgNames({"ranks", "bytes"})
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(barrier)
    ->Arg(2)
    ->Arg(8)
    ->Arg(64)
    ->Arg(512)
    ->ArgName("ranks")
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ptdp
