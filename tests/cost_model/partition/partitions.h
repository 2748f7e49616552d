// Every way of cutting a list into stages, one by one: the oracle for tests of partitions.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "cost_model/partition/partition.h"

namespace ptdp {

/// Calls `visit` with each way of writing `total` as a sum of `parts` numbers of 1 or more, in
/// lexicographic order.
inline void for_each_composition(int total, int parts,
                                 const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> sizes;
  const std::function<void(int)> extend = [&](int left) {
    const int missing = parts - static_cast<int>(sizes.size());
    if (missing == 0) {
      if (left == 0) {
        visit(sizes);
      }
      return;
    }
    for (int size = 1; size <= left - (missing - 1); ++size) {
      sizes.push_back(size);
      extend(left - size);
      sizes.pop_back();
    }
  };
  extend(total);
}

/// The figures by which a partition is judged.
struct PartitionScore {
  double slowest_rank = 0.0;
  double sum_of_squares = 0.0;  ///< Sum of the squares of the ranks' times.
  double longest_stage = 0.0;
  double fullest_rank = 0.0;  ///< Most memory of a rank.
};

inline PartitionScore score_of(std::span<const LayerCost> layers, const PartitionRequest& request,
                               const std::vector<int>& sizes) {
  std::vector<double> times(static_cast<std::size_t>(request.pp));
  std::vector<double> memories(times.size());
  PartitionScore score;
  std::size_t layer = 0;
  for (int stage = 0; stage < request.pp * request.vpp; ++stage) {
    // Stages go down the ranks and, in the second half of a V, up again.
    const bool is_back = request.placement == StagePlacement::kV && stage >= request.pp;
    const int rank = is_back ? 2 * request.pp - 1 - stage : stage % request.pp;
    double time = 0.0;
    for (int i = 0; i < sizes.at(stage); ++i, ++layer) {
      time += layers[layer].time.value();
      memories[rank] += layers[layer].memory.value();
      if (!request.in_flight.empty()) {
        memories[rank] += request.in_flight[rank] * layers[layer].kept.value();
      }
    }
    times[rank] += time;
    score.longest_stage = std::max(score.longest_stage, time);
  }
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    score.slowest_rank = std::max(score.slowest_rank, times[rank]);
    score.sum_of_squares += times[rank] * times[rank];
    score.fullest_rank = std::max(score.fullest_rank, memories[rank]);
  }
  return score;
}

/// Returns the best partition under `key` among those that keep to the request's memory. Of equal
/// ones it is the first in lexicographic order.
template <class Key>
std::optional<std::vector<int>> best_partition(std::span<const LayerCost> layers,
                                               const PartitionRequest& request, const Key& key) {
  std::optional<std::vector<int>> best;
  PartitionScore least;
  for_each_composition(static_cast<int>(layers.size()), request.pp * request.vpp,
                       [&](const std::vector<int>& sizes) {
                         const PartitionScore score = score_of(layers, request, sizes);
                         if (request.memory && score.fullest_rank > request.memory->value()) {
                           return;
                         }
                         if (!best || key(score) < key(least)) {
                           best = sizes;
                           least = score;
                         }
                       });
  return best;
}

}  // namespace ptdp
