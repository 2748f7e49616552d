#include "planner/explain/idle_gpus.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <vector>

namespace ptdp {
namespace {

bool leaves_many_idle(const ParallelConfig& config, std::int64_t gpus) {
  const auto idle = static_cast<double>(gpus - config.world_size());
  return idle > kMuchIdle * static_cast<double>(gpus);
}

/// Returns the multiples next to `batch` of every number of replicas that GPUs have room for when
/// the model takes a whole fraction of what it takes in `config`; the nearest first.
std::vector<std::int64_t> batches_near(std::int64_t batch, const ParallelConfig& config,
                                       std::int64_t gpus) {
  const std::int64_t of_replica = config.world_size() / config.dp;
  std::set<std::int64_t> batches;
  for (std::int64_t size = 1; size <= of_replica; ++size) {
    const std::int64_t replicas = of_replica % size == 0 ? gpus / size : 0;
    if (replicas > 0) {
      const std::int64_t below = batch / replicas * replicas;
      batches.insert({below, below + replicas});
    }
  }
  std::vector<std::int64_t> nearest;
  std::ranges::copy_if(batches, std::back_inserter(nearest),
                       [&](std::int64_t other) { return other > 0 && other != batch; });
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
  constexpr std::size_t most_tried = 4;
  options.num_best = 1;
  options.tie = 0.0;
  options.wants_front = false;
  options.on_progress = {};
  Scenario other = scenario;
  std::vector<std::int64_t> batches =
      batches_near(scenario.job.global_batch_size, best.config, options.gpus);
  batches.resize(std::min(batches.size(), most_tried));
  for (const std::int64_t batch : batches) {
    other.job.global_batch_size = batch;
    const SearchResult found = search(other, options);
    if (!found.best.empty() && !leaves_many_idle(found.best.front().config, options.gpus)) {
      return FullerBatch{.global_batch_size = batch, .best = found.best.front()};
    }
  }
  return std::nullopt;
}

}  // namespace ptdp
