#include "planner/search/ties.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <tuple>

#include "cost_model/text/plural.h"

namespace ptdp {
namespace {

// Memory decides nothing while a quarter of the device's is free.
constexpr double kFullShare = 0.75;
constexpr double kMemorySteps = 16.0;  // beyond that, in such parts of the device's

/// What decides among ties, the smaller the better.
struct Merits {
  std::int64_t idle_gpus = 0;
  int leaves_node = 0;  ///< 1: tensor parallelism crosses nodes.
  int is_full = 0;      ///< 1: less than a quarter of the device's memory is free.
  int schedule = 0;
  int vpp = 1;
  int odd_sizes = 0;
  int memory_steps = 0;  ///< Sixteenths of the device's memory beyond three quarters.

  friend auto operator<=>(const Merits&, const Merits&) = default;
};

int rank_of(ScheduleKind schedule) {
  return schedule == ScheduleKind::kOneFOneB ? 0 : schedule == ScheduleKind::kInterleaved ? 1 : 2;
}

int odd_sizes(const ParallelConfig& config) {
  const std::array<int, 6> sizes = {config.tp, config.pp, config.dp,
                                    config.cp, config.ep, config.micro_batch_size};
  return static_cast<int>(std::ranges::count_if(
      sizes, [](int size) { return !std::has_single_bit(static_cast<unsigned>(size)); }));
}

Merits merits_of(const Candidate& candidate, const Scenario& scenario,
                 const SearchOptions& options) {
  const ParallelConfig& config = candidate.config;
  const double over = std::max(candidate.memory / scenario.cluster.gpu.memory - kFullShare, 0.0);
  return {
      .idle_gpus = options.objective == Objective::kCost ? 0 : options.gpus - config.world_size(),
      .leaves_node = config.tp > scenario.cluster.gpus_per_node ? 1 : 0,
      .is_full = over > 0.0 ? 1 : 0,
      .schedule = rank_of(config.schedule),
      .vpp = config.vpp,
      .odd_sizes = odd_sizes(config),
      .memory_steps = static_cast<int>(std::ceil(kMemorySteps * over))};
}

}  // namespace

bool is_preferred(const Candidate& a, const Candidate& b, const Scenario& scenario,
                  const SearchOptions& options) {
  const auto key = [&](const Candidate& candidate) {
    return std::tuple(merits_of(candidate, scenario, options),
                      score(candidate.time, candidate.config, options.objective));
  };
  const auto key_a = key(a);
  const auto key_b = key(b);
  return key_a != key_b ? key_a < key_b : a.config < b.config;
}

void choose_among_ties(const Scenario& scenario, const SearchOptions& options,
                       SearchResult& found) {
  if (found.ties.empty()) {
    return;
  }
  const Candidate chosen =
      *std::ranges::min_element(found.ties, [&](const Candidate& a, const Candidate& b) {
        return is_preferred(a, b, scenario, options);
      });
  const Candidate fastest = found.best.front();
  if (chosen.config == fastest.config) {
    return;
  }
  found.fastest = fastest;
  std::erase_if(found.best, [&](const Candidate& one) { return one.config == chosen.config; });
  found.best.insert(found.best.begin(), chosen);
  found.best.resize(
      std::min(found.best.size(), static_cast<std::size_t>(std::max(options.num_best, 1))));
}

std::vector<std::string> gains_of_choice(const Candidate& chosen, const Candidate& fastest,
                                         const Scenario& scenario, const SearchOptions& options) {
  const Merits ours = merits_of(chosen, scenario, options);
  const Merits others = merits_of(fastest, scenario, options);
  std::vector<std::string> gains;
  if (ours.idle_gpus < others.idle_gpus) {
    gains.push_back(
        fmt::format("{} instead of {} idle", plural(ours.idle_gpus, "GPU"), others.idle_gpus));
  }
  if (ours.leaves_node < others.leaves_node) {
    gains.emplace_back("tensor parallelism within a node");
  }
  if (chosen.memory < fastest.memory) {
    gains.push_back(
        fmt::format("{:.1f} GiB less", (fastest.memory - chosen.memory).value() / kGibi));
  }
  if (std::tie(ours.schedule, ours.vpp) < std::tie(others.schedule, others.vpp)) {
    gains.emplace_back(chosen.config.pp == 1             ? "no pipeline"
                       : ours.schedule < others.schedule ? "a plainer schedule"
                                                         : "fewer chunks");
  }
  if (ours.odd_sizes < others.odd_sizes) {
    gains.emplace_back("more sizes that are powers of two");
  }
  return gains;
}

}  // namespace ptdp
