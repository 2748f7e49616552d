#include "planner/explain/idle_gpus.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <vector>

#include "planner/search/ties.h"

namespace ptdp {
namespace {

bool leaves_many_idle(const ParallelConfig& config, std::int64_t gpus) {
  const auto idle = static_cast<double>(gpus - config.world_size());
  return idle > kMuchIdle * static_cast<double>(gpus);
}

/// Returns batches from half to twice `batch`, the nearest first: multiples of the replicas that
/// all GPUs make. A replica has up to twice as many GPUs as that of `config`.
std::vector<std::int64_t> batches_near(std::int64_t batch, const ParallelConfig& config,
                                       std::int64_t gpus) {
  const std::int64_t largest = 2 * (config.world_size() / config.dp);
  std::set<std::int64_t> batches;
  for (std::int64_t size = 1; size <= largest; ++size) {
    if (gpus % size == 0) {
      const std::int64_t replicas = gpus / size;
      const std::int64_t below = batch / replicas * replicas;
      batches.insert({below, below + replicas});
    }
  }
  std::vector<std::int64_t> nearest;
  std::ranges::copy_if(batches, std::back_inserter(nearest), [&](std::int64_t other) {
    return other != batch && 2 * other >= batch && other <= 2 * batch;
  });
  std::ranges::stable_sort(nearest, [&](std::int64_t a, std::int64_t b) {
    return std::abs(a - batch) < std::abs(b - batch);
  });
  return nearest;
}

}  // namespace

std::optional<FullerBatch> batch_that_uses_gpus(const Scenario& scenario, SearchOptions options,
                                                const Candidate& best) {
  if (options.objective == Objective::kCost || !leaves_many_idle(best.config, options.gpus)) {
    return std::nullopt;
  }
  constexpr std::size_t most_tried = 8;
  options.num_best = 1;
  options.wants_front = false;
  options.on_progress = {};
  Scenario other = scenario;
  std::vector<std::int64_t> batches =
      batches_near(scenario.job.global_batch_size, best.config, options.gpus);
  batches.resize(std::min(batches.size(), most_tried));
  for (const std::int64_t batch : batches) {
    other.job.global_batch_size = batch;
    SearchResult found = search(other, options);
    choose_among_ties(other, options, found);
    if (found.best.empty() || found.best.front().config.world_size() < options.gpus) {
      continue;
    }
    const Candidate& fuller = found.best.front();
    const double faster = (static_cast<double>(batch) / fuller.time.value()) /
                          (static_cast<double>(scenario.job.global_batch_size) / best.time.value());
    if (faster > 1.0) {
      return FullerBatch{.global_batch_size = batch, .best = fuller};
    }
  }
  return std::nullopt;
}

}  // namespace ptdp
