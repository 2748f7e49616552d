// Times partitions. Goals: 10^5 layers over 1024 ranks within 100 ms; a transformer's within 1 us
// per candidate of a search and 64 ranks; lists of usual sizes with several chunks within a second.
#include <benchmark/benchmark.h>

#include <random>

#include "cost_model/partition/balance_equal_layers.h"
#include "cost_model/partition/partition.h"

namespace ptdp {
namespace {

/// Returns layers of 0.5 to 1.5 s, of `kinds` different lengths.
std::vector<LayerCost> unlike_layers(std::int64_t num_layers, int kinds) {
  std::mt19937 random(1);
  std::vector<LayerCost> layers(static_cast<std::size_t>(num_layers));
  for (LayerCost& layer : layers) {
    layer.time = Seconds(0.5 + static_cast<double>(random() % kinds) / kinds);
  }
  return layers;
}

/// Partitions a list. Arguments: layers, ranks, kinds of layers. Items are layers.
void partition_list(benchmark::State& state) {
  const auto layers = unlike_layers(state.range(0), static_cast<int>(state.range(2)));
  const PartitionRequest request{.pp = static_cast<int>(state.range(1))};
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(partition_layers(layers, request));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(partition_list)
    ->Args({100, 8, 1000})
    ->Args({1000, 64, 1000})
    ->Args({100'000, 1024, 1'000'000})
    ->Args({100'000, 1024, 2})
    ->Args({100'000, 1024, 1})
    ->Unit(benchmark::kMicrosecond);

/// Partitions a list with one layer that outweighs every stage, so that the other cuts are free.
void partition_list_with_giant(benchmark::State& state) {
  auto layers = unlike_layers(100'000, 1'000'000);
  layers[50'000].time = Seconds(1e6);
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(partition_layers(layers, {.pp = 1024}));
  }
}
BENCHMARK(partition_list_with_giant)->Unit(benchmark::kMicrosecond);

/// Partitions a list into chunks. Arguments: layers, ranks, chunks, kinds of layers, whether in a
/// V.
void partition_chunks(benchmark::State& state) {
  const auto layers = unlike_layers(state.range(0), static_cast<int>(state.range(3)));
  const PartitionRequest request{
      .pp = static_cast<int>(state.range(1)),
      .vpp = static_cast<int>(state.range(2)),
      .placement = state.range(4) != 0 ? StagePlacement::kV : StagePlacement::kLooped};
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(partition_layers(layers, request));
  }
}
BENCHMARK(partition_chunks)
    ->Args({64, 4, 2, 2, 0})
    ->Args({64, 8, 2, 4, 0})
    ->Args({96, 8, 2, 1000, 0})
    ->Args({32, 4, 4, 2, 0})
    ->Args({96, 8, 2, 1000, 1})
    ->Args({512, 16, 2, 4, 1})
    ->Unit(benchmark::kMillisecond);

/// Balances a transformer. Arguments: ranks, chunks.
void balance_transformer(benchmark::State& state) {
  const TransformerTimes times{.num_layers = 128,
                               .layer = Seconds(0.01),
                               .embedding = Seconds(0.003),
                               .logits = Seconds(0.016)};
  const int pp = static_cast<int>(state.range(0));
  const int vpp = static_cast<int>(state.range(1));
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(balanced_layers(times, pp, vpp));
  }
}
BENCHMARK(balance_transformer)
    ->Args({8, 1})
    ->Args({64, 1})
    ->Args({12, 5})
    ->Unit(benchmark::kNanosecond);

}  // namespace
}  // namespace ptdp
