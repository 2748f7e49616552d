// Turns layer costs into integers and chooses the way of cutting them.
#include "cost_model/partition/partition.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "cost_model/partition/balance_equal_layers.h"
#include "cost_model/partition/layer_ticks.h"

namespace ptdp {
namespace {

constexpr int kTickBits = 62;
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// Returns the exponent of the power of two that takes the sum of all times just below 2^62.
int tick_exponent(std::span<const LayerCost> layers) {
  double total = 0.0;
  for (const LayerCost& layer : layers) {
    total += layer.time.value();
  }
  int exponent = 0;
  (void)std::frexp(total, &exponent);
  return kTickBits - exponent;
}

std::int64_t whole_bytes(Bytes memory) {
  return std::llround(std::min(memory.value(), 0x1p62));
}

LayerTicks to_ticks(std::span<const LayerCost> layers, std::optional<Bytes> memory_limit,
                    const std::vector<double>& in_flight) {
  const int exponent = tick_exponent(layers);
  LayerTicks ticks{.time = {0}, .memory = {0}, .kept = {0}, .in_flight = in_flight};
  for (const LayerCost& layer : layers) {
    assert(layer.time >= Seconds(0.0) && layer.memory >= Bytes(0.0) && layer.kept >= Bytes(0.0));
    const std::int64_t time = std::llround(std::ldexp(layer.time.value(), exponent));
    ticks.time.push_back(ticks.time.back() + time);
    ticks.memory.push_back(ticks.memory.back() + whole_bytes(layer.memory));
    ticks.kept.push_back(ticks.kept.back() + whole_bytes(layer.kept));
  }
  ticks.memory_limit = memory_limit ? whole_bytes(*memory_limit) : kNoLimit;
  return ticks;
}

std::int64_t time_of(const LayerTicks& ticks, int layer) {
  return ticks.time[layer + 1] - ticks.time[layer];
}

/// Whether all layers but the first and the last cost the same.
bool is_even_inside(const LayerTicks& ticks) {
  for (const auto* sums : {&ticks.time, &ticks.memory, &ticks.kept}) {
    for (int layer = 2; layer + 1 < ticks.num_layers(); ++layer) {
      if ((*sums)[layer + 1] - (*sums)[layer] != (*sums)[2] - (*sums)[1]) {
        return false;
      }
    }
  }
  return ticks.num_layers() >= 3;
}

/// Cuts a list of equal layers between two ends by balanced_layers(), which counts the ends apart.
std::optional<std::vector<int>> cut_evenly(const LayerTicks& ticks,
                                           const PartitionRequest& request) {
  const int last = ticks.num_layers() - 1;
  const auto as_time = [&](int layer) {
    return Seconds(static_cast<double>(time_of(ticks, layer)));
  };
  TransformerTimes times{.num_layers = ticks.num_layers() - 2,
                         .layer = as_time(1),
                         .embedding = as_time(0),
                         .logits = as_time(last)};
  if (times.layer == Seconds(0.0)) {  // with times at the ends alone, any spread is as fast
    times.layer = Seconds(1.0);
    times.embedding = times.logits = Seconds(0.0);
  }
  std::vector<int> most(static_cast<std::size_t>(request.pp));
  for (int rank = 0; rank < request.pp; ++rank) {
    const auto memory_of = [&](int layer) { return ticks.memory_of(rank, layer, layer + 1); };
    const std::int64_t memory = memory_of(1);
    std::int64_t room = ticks.memory_limit;
    room -= rank == 0 ? memory_of(0) : 0;
    room -= rank == rank_of_stage(request, request.pp * request.vpp - 1) ? memory_of(last) : 0;
    if (room < 0) {
      return std::nullopt;
    }
    most[rank] = memory == 0
                     ? times.num_layers
                     : static_cast<int>(std::min<std::int64_t>(room / memory, times.num_layers));
  }
  auto result = balanced_layers(times, request.pp, request.vpp, request.placement, most);
  if (result) {
    ++result->front();
    ++result->back();
  }
  return result;
}

/// Cuts the chunks of a single rank, which holds everything, as if they were ranks. Returns nullopt
/// when memory is short.
std::optional<std::vector<int>> cut_single_rank(const LayerTicks& ticks, int vpp) {
  return ticks.memory_of(0, 0, ticks.num_layers()) > ticks.memory_limit
             ? std::nullopt
             : cut_contiguously(ticks.without_memory(), vpp);
}

std::optional<std::vector<int>> cut(const LayerTicks& ticks, const PartitionRequest& request) {
  if (std::int64_t{request.pp} * request.vpp > ticks.num_layers()) {
    return std::nullopt;
  }
  if (request.vpp == 1) {
    return cut_contiguously(ticks, request.pp);
  }
  if (request.pp == 1) {
    return cut_single_rank(ticks, request.vpp);
  }
  return is_even_inside(ticks) ? cut_evenly(ticks, request) : cut_by_search(ticks, request);
}

}  // namespace

std::int64_t LayerTicks::longest() const {
  std::int64_t most = 0;
  for (int layer = 0; layer < num_layers(); ++layer) {
    most = std::max(most, time_of(*this, layer));
  }
  return most;
}

LayerTicks LayerTicks::without_memory() const {
  LayerTicks ticks = *this;
  ticks.memory_limit = kNoLimit;
  ticks.in_flight.clear();
  return ticks;
}

int rank_of_stage(const PartitionRequest& request, int stage) {
  const bool is_upward = request.placement == StagePlacement::kV && stage >= request.pp;
  return is_upward ? 2 * request.pp - 1 - stage : stage % request.pp;
}

std::optional<std::vector<int>> partition_layers(std::span<const LayerCost> layers,
                                                 const PartitionRequest& request) {
  assert(request.pp >= 1 && request.vpp >= 1);
  assert(request.placement == StagePlacement::kLooped ||
         (request.placement == StagePlacement::kV && request.vpp == 2));
  assert(request.in_flight.empty() ||
         (request.in_flight.size() == static_cast<std::size_t>(request.pp) &&
          std::is_sorted(request.in_flight.rbegin(), request.in_flight.rend())));
  return cut(to_ticks(layers, request.memory, request.in_flight), request);
}

Bytes least_memory(std::span<const LayerCost> layers, const PartitionRequest& request) {
  assert(request.in_flight.empty());
  LayerTicks ticks = to_ticks(layers, std::nullopt, {});
  ticks.time = ticks.memory;
  std::fill(ticks.memory.begin(), ticks.memory.end(), 0);
  const auto sizes = cut(ticks, request);
  assert(sizes.has_value());
  Bytes most;
  for (const LayerCost& load : loads_of_ranks(layers, request, *sizes)) {
    most = std::max(most, load.memory);
  }
  return most;
}

std::vector<LayerCost> loads_of_ranks(std::span<const LayerCost> layers,
                                      const PartitionRequest& request,
                                      std::span<const int> layers_per_stage) {
  std::vector<LayerCost> loads(static_cast<std::size_t>(request.pp));
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < layers_per_stage.size(); ++stage) {
    const int rank = rank_of_stage(request, static_cast<int>(stage));
    const double in_flight = request.in_flight.empty() ? 0.0 : request.in_flight[rank];
    for (int i = 0; i < layers_per_stage[stage]; ++i, ++layer) {
      loads[rank].time += layers[layer].time;
      loads[rank].memory += layers[layer].memory + in_flight * layers[layer].kept;
      loads[rank].kept += layers[layer].kept;
    }
  }
  return loads;
}

std::vector<int> even_partition(int num_layers, int num_stages) {
  std::vector<int> result(static_cast<std::size_t>(num_stages), num_layers / num_stages);
  for (int stage = 0; stage < num_layers % num_stages; ++stage) {
    ++result[stage];
  }
  return result;
}

}  // namespace ptdp
