#include "planner/pilot/short_runs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/accuracy/levels_file.h"
#include "planner/answer/given_config.h"
#include "planner/constraints/constraint.h"

namespace ptdp {
namespace {

constexpr int kLayersOfChunk = 2;
constexpr std::int64_t kMicrobatchesOfRank = 4;
/// Standard deviations of ln(measured/predicted) without any runs: of the job, and of layouts.
constexpr double kUnknownJob = 0.25;
constexpr double kUnknownLayout = 0.05;

/// Returns the least number of replicas from 2 on, a divisor of the plan's, that fills whole nodes
/// and fits experts and shards; the plan's own if none does.
int fewer_replicas(const ParallelConfig& config, const ClusterSpec& cluster) {
  const std::int64_t others = std::int64_t{1} * config.tp * config.pp * config.cp;
  for (int dp = std::min(2, config.dp); dp < config.dp; ++dp) {
    ParallelConfig fewer = config;
    fewer.dp = dp;
    const std::int64_t gpus = others * dp;
    const bool fills_nodes = gpus <= cluster.gpus_per_node ? cluster.gpus_per_node % gpus == 0
                                                           : gpus % cluster.gpus_per_node == 0;
    if (config.dp % dp == 0 && dp % config.dp_replicate == 0 && fills_nodes &&
        experts_divide_ranks(fewer)) {
      return dp;
    }
  }
  return config.dp;
}

/// Returns the number of microbatches of a smaller job: some for each rank, in whole groups.
std::int64_t fewer_microbatches(std::int64_t microbatches, int pp) {
  return std::min(microbatches, kMicrobatchesOfRank * pp);
}

}  // namespace

double gpu_hours_of(const Plan& plan) {
  const double seconds =
      kStartSeconds + kShortRunIterations * plan.predicted.iteration_time.value.value();
  return static_cast<double>(plan.config.world_size()) * seconds / 3600.0;
}

std::optional<Plan> smaller_plan(const Plan& plan, const CalibrationSource& calibration) {
  ParallelConfig config = plan.config;
  Scenario scenario = plan.scenario;
  if (!config.layers_per_stage.empty()) {
    return std::nullopt;  // a split of its own is part of what would be measured
  }
  const std::int64_t microbatches = num_microbatches(scenario.job.global_batch_size, config);
  const int chunks = config.pp * config.vpp;
  const int layers_of_chunk = std::min(kLayersOfChunk, scenario.job.model.num_layers / chunks);
  config.pp = std::min(config.pp, 2);
  scenario.job.model.num_layers = layers_of_chunk * config.pp * config.vpp;
  config.recompute_num_layers = std::min(config.recompute_num_layers, layers_of_chunk);
  config.dp = fewer_replicas(config, scenario.cluster);
  scenario.job.global_batch_size =
      fewer_microbatches(microbatches, config.pp) * config.micro_batch_size * config.dp;
  const bool is_smaller = config.world_size() < plan.config.world_size() ||
                          scenario.job.model.num_layers < plan.scenario.job.model.num_layers;
  if (!is_smaller || find_shape_violation({scenario, config})) {
    return std::nullopt;
  }
  const SearchOptions options{.gpus = config.world_size(), .memory_headroom = plan.memory_headroom};
  return plan_given_config(scenario, options, config, calibration);
}

std::vector<PossibleRun> possible_runs(std::span<const Plan> plans,
                                       const CalibrationSource& calibration) {
  std::vector<PossibleRun> runs;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    runs.push_back({{.plan = i, .gpu_hours = gpu_hours_of(plans[i])}, plans[i]});
    if (std::optional<Plan> smaller = smaller_plan(plans[i], calibration)) {
      const double hours = gpu_hours_of(*smaller);
      runs.push_back({{.plan = i, .is_smaller = true, .gpu_hours = hours}, std::move(*smaller)});
    }
  }
  return runs;
}

PilotModel pilot_model(const CalibrationFit& fit) {
  if (!fit.is_calibrated()) {
    return {.job_variance = kUnknownJob * kUnknownJob,
            .other_job = kUnknownJob * kUnknownJob,
            .layout_variance = kUnknownLayout * kUnknownLayout};
  }
  const LevelModel& levels = shipped_levels().time.model;
  return {.job_variance = std::max(fit.variance - fit.layout_variance, 0.0),
          .other_job = 2.0 * levels.job / levels.noise * fit.layout_variance,
          .layout_variance = fit.layout_variance};
}

}  // namespace ptdp
