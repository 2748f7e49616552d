#include "cost_model/measured/contradictions.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace ptdp {
namespace {

/// Returns whether two runs differ in nothing but the microbatch size and what was measured.
bool is_one_series(const MeasuredRun& a, const MeasuredRun& b) {
  ParallelConfig config = a.config;
  config.micro_batch_size = b.config.micro_batch_size;
  return a.cluster == b.cluster && a.stack == b.stack && a.model == b.model &&
         a.global_batch_size == b.global_batch_size && config == b.config &&
         a.precision == b.precision && a.data_parallel_overlap == b.data_parallel_overlap &&
         a.tp_comm_overlap == b.tp_comm_overlap && a.expert_dispatch == b.expert_dispatch &&
         a.expert_overlap == b.expert_overlap && a.cuda_graphs == b.cuda_graphs &&
         a.scatter_gather == b.scatter_gather && a.fused == b.fused;
}

using Series = std::vector<std::size_t>;

/// Groups runs into series that differ in the microbatch size only; returns indices into `runs`.
std::vector<Series> series_of(std::span<const MeasuredRun> runs) {
  // Runs are sorted by what most often differs first, so that few pairs are compared in full.
  std::map<std::tuple<std::string, int, int, std::int64_t, int, int, int>, std::vector<Series>>
      alike;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const MeasuredRun& run = runs[i];
    std::vector<Series>& candidates =
        alike[{run.cluster, run.model.num_layers, run.model.hidden_size, run.global_batch_size,
               run.config.tp, run.config.pp, run.config.dp}];
    const auto found = std::find_if(
        candidates.begin(), candidates.end(),
        [&](const Series& series) { return is_one_series(runs[series.front()], run); });
    (found != candidates.end() ? *found : candidates.emplace_back()).push_back(i);
  }
  std::vector<Series> all;
  for (const auto& [key, candidates] : alike) {
    all.insert(all.end(), candidates.begin(), candidates.end());
  }
  return all;
}

/// Returns the least slot_time() of a series for each microbatch size.
std::map<int, Seconds> least_slot_times(std::span<const MeasuredRun> runs, const Series& series) {
  std::map<int, Seconds> least;
  for (const std::size_t i : series) {
    const Seconds time = slot_time(runs[i]);
    const auto [found, is_first] = least.try_emplace(runs[i].config.micro_batch_size, time);
    found->second = std::min(found->second, time);
  }
  return least;
}

}  // namespace

Seconds slot_time(const MeasuredRun& run) {
  const auto m = static_cast<double>(num_microbatches(run.global_batch_size, run.config));
  return run.iteration_time / ((m + run.config.pp - 1.0) * run.config.micro_batch_size);
}

std::vector<bool> find_contradictions(std::span<const MeasuredRun> runs) {
  std::vector<bool> found(runs.size());
  for (const Series& series : series_of(runs)) {
    const std::map<int, Seconds> least = least_slot_times(runs, series);
    for (const std::size_t i : series) {
      const int b = runs[i].config.micro_batch_size;
      found[i] = std::any_of(least.begin(), least.end(), [&](const auto& other) {
        const double ratio = slot_time(runs[i]) / other.second;
        return (other.first > b && ratio > kMostOverLarger) ||
               (other.first < b && ratio > kMostOverSmaller);
      });
    }
  }
  return found;
}

}  // namespace ptdp
