// Composes an iteration from rehearsed times and modeled collectives, messages and waits.
#include "planner/runs/rehearsal_composition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/iteration/collective_durations.h"
#include "cost_model/iteration/reduction_and_optimizer.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/iteration/step_builder.h"
#include "cost_model/memory/memory.h"
#include "cost_model/operations/core_contention.h"
#include "cost_model/operations/slowest_card.h"
#include "cost_model/schedule/validator/validator.h"
#include "cost_model/simulation/core_scheduler.h"
#include "cost_model/simulation/engine/step_simulator.h"
#include "planner/plan/plan_simulation.h"

namespace ptdp {
namespace {

using PassMember = Seconds StageDurations::*;
constexpr std::array kPassMembers = {&StageDurations::forward, &StageDurations::backward,
                                     &StageDurations::input_gradient,
                                     &StageDurations::weight_gradient};

std::vector<StageDurations> scaled(std::vector<StageDurations> stages, double factor) {
  for (StageDurations& stage : stages) {
    for (const PassMember pass : kPassMembers) {
      stage.*pass = stage.*pass * factor;
    }
  }
  return stages;
}

std::vector<StageDurations> collectives_of(const Plan& plan, const PlannedJob& job) {
  return scaled(virtual_stage_collectives(job), plan.predicted.calibration_factor);
}

/// Predicts the compute of the plan's configuration in a scenario, calibrated as the plan is.
ComputeTimes compute_times(const Plan& plan, const Scenario& scenario) {
  const ParallelConfig& config = plan.config;
  const double factor = plan.predicted.calibration_factor;
  const PlannedJob job(scenario, config);
  ComputeTimes times{.stages = scaled(step_times(job).stages, factor)};
  const std::vector<StageDurations> collectives = collectives_of(plan, job);
  for (std::size_t stage = 0; stage < times.stages.size(); ++stage) {
    for (const PassMember pass : kPassMembers) {
      times.stages[stage].*pass = times.stages[stage].*pass - collectives[stage].*pass;
    }
  }
  const Seconds exchange = optimizer_time(job, {.dense = 1.0}).norm;
  for (int rank = 0; rank < config.pp; ++rank) {
    const OptimizerTime time =
        optimizer_time(job, rank_parameters(scenario.job.model, config, rank));
    times.norm.push_back((time.norm - exchange) * factor);
    times.optimizer.push_back(time.step * factor);
  }
  return times;
}

/// Returns the scenario of a rank that has the machine to itself, on a usual card.
Scenario alone(Scenario scenario) {
  scenario.cluster.busy_cores.clear();
  scenario.cluster.gpu.card_spread = 0.0;
  return scenario;
}

/// Returns P(a)/P₁(a') of compose(); 1 when either is not predicted.
double ratio_of(Seconds predicted, Seconds of_source) {
  return of_source > Seconds(0.0) && predicted > Seconds(0.0) ? predicted / of_source : 1.0;
}

/// Returns the rehearsed rank whose times a pipeline rank gets.
const RehearsedTimes& source_of(std::span<const RehearsedTimes> rehearsed, int rank, int pp) {
  const auto is_between = [pp](int other) { return other > 0 && other < pp - 1; };
  const auto distance = [&](const RehearsedTimes& times) {
    const bool is_alike = times.rank == rank || is_between(times.rank) == is_between(rank);
    return std::pair(is_alike ? 0 : 1, std::abs(times.rank - rank));
  };
  return *std::min_element(
      rehearsed.begin(), rehearsed.end(),
      [&](const RehearsedTimes& a, const RehearsedTimes& b) { return distance(a) < distance(b); });
}

std::vector<int> stages_of_rank(const ParallelConfig& config, int rank) {
  std::vector<int> stages;
  for_each_virtual_stage(config, rank, [&](int stage) { stages.push_back(stage); });
  return stages;
}

/// The compute of all ranks, measured where ranks were rehearsed.
struct ComposedCompute {
  ComputeTimes times;
  std::vector<int> sources;  ///< By pipeline rank, the rehearsed rank whose times it has.
};

ComposedCompute composed_compute(const Plan& plan, std::span<const RehearsedTimes> rehearsed) {
  const ParallelConfig& config = plan.config;
  ComposedCompute result{.times = compute_times(plan, plan.scenario)};
  if (rehearsed.empty()) {
    return result;
  }
  const ComputeTimes busy = result.times;
  const ComputeTimes by_itself = predicted_alone(plan);
  for (int rank = 0; rank < config.pp; ++rank) {
    const RehearsedTimes& source = source_of(rehearsed, rank, config.pp);
    result.sources.push_back(source.rank);
    const std::vector<int> stages = stages_of_rank(config, rank);
    const std::vector<int> from = stages_of_rank(config, source.rank);
    for (std::size_t chunk = 0; chunk < stages.size(); ++chunk) {
      // Only the first of the two copies of a virtual stage counts in a bidirectional pipeline.
      const auto stage = static_cast<std::size_t>(stages[chunk]);
      if (traits_of(config.schedule).placement == StagePlacement::kBidirectional && chunk > 0) {
        continue;
      }
      for (const PassMember pass : kPassMembers) {
        const Seconds measured = source.stages.at(from[chunk]).*pass;
        if (measured > Seconds(0.0)) {
          result.times.stages[stage].*pass =
              measured * ratio_of(busy.stages[stage].*pass,
                                  by_itself.stages[static_cast<std::size_t>(from[chunk])].*pass);
        }
      }
    }
    const auto to = static_cast<std::size_t>(rank);
    const auto of = static_cast<std::size_t>(source.rank);
    result.times.norm[to] = source.norm * ratio_of(busy.norm[to], by_itself.norm[of]);
    result.times.optimizer[to] =
        source.optimizer * ratio_of(busy.optimizer[to], by_itself.optimizer[of]);
  }
  return result;
}

/// Returns for each pipeline rank the time of all its passes in a step.
std::vector<Seconds> pass_time(const Schedule& schedule,
                               const std::vector<StageDurations>& stages) {
  std::vector<Seconds> times;
  for (const std::vector<Action>& order : schedule.orders) {
    times.emplace_back();
    for (const Action& action : order) {
      if (const PassMember pass = duration_of(action.kind)) {
        times.back() += stages[static_cast<std::size_t>(action.stage)].*pass;
      }
    }
  }
  return times;
}

/// Returns how much longer an iteration takes because ranks that share cores wait for them.
Seconds sharing_of_cores(const Plan& plan, const Schedule& schedule, const ComputeTimes& compute) {
  const ClusterSpec& cluster = plan.scenario.cluster;
  if (!cluster.cores_per_node || ranks_on_node(plan.config, cluster) <= *cluster.cores_per_node) {
    return Seconds(0.0);
  }
  const auto ranks = static_cast<int>(plan.config.world_size());
  const int pipelines = ranks / plan.config.pp;
  const int nodes = (ranks + cluster.gpus_per_node - 1) / cluster.gpus_per_node;
  const Seconds passes =
      time_on_shared_cores(schedule, compute.stages, pipelines, nodes * *cluster.cores_per_node) -
      time_on_shared_cores(schedule, compute.stages, pipelines, ranks);
  const Seconds most = *std::max_element(compute.optimizer.begin(), compute.optimizer.end());
  const Seconds all =
      std::accumulate(compute.optimizer.begin(), compute.optimizer.end(), Seconds(0.0));
  return std::max(passes, Seconds(0.0)) +
         core_contention_time(plan.config, cluster, all / plan.config.pp, most);
}

/// Splits the compute of a rank over its terms by the shares that were measured alone. When shares
/// were not measured, splits it as `terms` predict.
void add_compute_terms(const Plan& plan, const RehearsedTimes& source, Seconds compute,
                       RunTerms& terms) {
  const ComputeFactors busy = compute_factors(plan.config, plan.scenario.cluster);
  const ComputeFactors by_itself = compute_factors(plan.config, alone(plan.scenario).cluster);
  double matmul = source.matmul_share * busy.matmul / by_itself.matmul;
  double attention = source.attention_share * busy.attention / by_itself.attention;
  double rest = std::max(1.0 - source.matmul_share - source.attention_share, 0.0) *
                busy.memory_bound / by_itself.memory_bound;
  if (source.matmul_share + source.attention_share == 0.0) {
    matmul = terms[RunTerm::kMatmul].value();
    attention = terms[RunTerm::kAttention].value();
    rest = terms[RunTerm::kMemoryBound].value();
  }
  const double whole = matmul + attention + rest;
  terms[RunTerm::kMatmul] = compute * (matmul / whole);
  terms[RunTerm::kAttention] = compute * (attention / whole);
  terms[RunTerm::kMemoryBound] = compute * (rest / whole);
}

}  // namespace

ComputeTimes predicted_alone(const Plan& plan) {
  return compute_times(plan, alone(plan.scenario));
}

Composition compose(const Plan& plan, std::span<const RehearsedTimes> rehearsed) {
  const Schedule schedule = complete_schedule(plan);
  const ComposedCompute compute = composed_compute(plan, rehearsed);
  const PlannedJob job(plan.scenario, plan.config);
  Composition result{.sources = compute.sources,
                     .times = plan_times(plan, {}),
                     .collectives = collectives_of(plan, job)};
  for (std::size_t stage = 0; stage < result.times.stages.size(); ++stage) {
    for (const PassMember pass : kPassMembers) {
      result.times.stages[stage].*pass =
          compute.times.stages[stage].*pass + result.collectives[stage].*pass;
    }
  }
  result.times.optimizer = compute.times.optimizer;
  if (!rehearsed.empty()) {
    const Seconds exchange = optimizer_time(job, {.dense = 1.0}).norm;
    result.times.norm = exchange * plan.predicted.calibration_factor +
                        *std::max_element(compute.times.norm.begin(), compute.times.norm.end());
  }
  result.core_contention = sharing_of_cores(plan, schedule, compute.times);
  result.step = step_of(plan, simulate_step_times(schedule, result.times)) + result.core_contention;

  const std::vector<Seconds> passes = pass_time(schedule, compute.times.stages);
  result.terms_rank =
      static_cast<int>(std::max_element(passes.begin(), passes.end()) - passes.begin());
  const auto longest = static_cast<std::size_t>(result.terms_rank);
  result.terms = predicted_run_terms(plan, result.terms_rank);
  if (!rehearsed.empty()) {
    add_compute_terms(plan, source_of(rehearsed, result.terms_rank, plan.config.pp),
                      passes[longest], result.terms);
  }
  if (!shards_gradients(plan.config)) {  // else data parallelism is among the collectives
    result.terms[RunTerm::kTensorParallel] = pass_time(schedule, result.collectives)[longest];
  }
  result.terms[RunTerm::kOptimizer] = result.times.norm + result.times.optimizer[longest];
  result.terms[RunTerm::kBubble] = std::max(result.step - result.terms.own(), Seconds(0.0));
  return result;
}

int rehearsed_microbatches(const Plan& plan, int rank) {
  const ParallelConfig& config = plan.config;
  const auto all = static_cast<int>(plan.schedule.num_microbatches);
  const auto held_of = [&](int num_microbatches) -> std::optional<int> {
    ScheduleRecipe recipe = plan.schedule;
    recipe.num_microbatches = num_microbatches;
    try {
      return peak_activations(make_schedule(recipe, config.pp, config.vpp))[rank];
    } catch (const Error&) {
      return std::nullopt;  // the schedule does not exist for this number of microbatches
    }
  };
  const int held = held_of(all).value_or(0);
  const int chunks = static_cast<int>(stages_of_rank(config, rank).size());
  for (int count = 2 * ((held + chunks - 1) / chunks); count < all; ++count) {
    if (held_of(count) == held) {
      return count;
    }
  }
  return all;
}

std::vector<std::string> modelled_of(const Plan& plan, std::size_t num_rehearsed) {
  const ParallelConfig& config = plan.config;
  std::vector<std::string> lines;
  if (config.tp > 1) {
    lines.push_back(fmt::format(
        "collectives of {} tensor-parallel ranks within passes, and waiting for the slowest",
        config.tp));
  }
  if (config.pp > 1) {
    lines.push_back(fmt::format("messages between the {} stages, and waiting for them", config.pp));
  }
  if (config.dp > 1) {
    lines.push_back(
        fmt::format("reductions and gathers over {} replicas, and what hides them", config.dp));
  }
  if (config.pp > 1 && !plan.scenario.job.model.untied_embeddings) {
    lines.emplace_back("the all-reduce of the tied embedding's gradient");
  }
  if (config.world_size() > 1) {
    lines.emplace_back("the exchange of the norm");
  }
  if (plan.scenario.cluster.cores_per_node) {
    lines.emplace_back("what ranks lose to others that compute on the cores of their host");
  }
  if (slowest_card_factor(config.world_size(), plan.scenario.cluster.gpu.card_spread) > 1.0) {
    lines.push_back(fmt::format("what all lose to the slowest of {} cards", config.world_size()));
  }
  if (static_cast<int>(num_rehearsed) < config.pp) {
    lines.emplace_back(
        "ranks that were not rehearsed: they have the times of the nearest one that was, scaled by "
        "what is predicted of both (layers, embedding, logits)");
  }
  return lines;
}

int middle_rank(const Plan& plan) {
  const int pp = plan.config.pp;
  int middle = pp / 2;
  if (pp <= 2) {
    return middle;
  }
  const auto layers = [&](int rank) {
    return total(layers_of_rank(plan.scenario.job.model, plan.config, rank));
  };
  for (int rank = 1; rank < pp - 1; ++rank) {
    const bool is_nearer = std::abs(rank - pp / 2) < std::abs(middle - pp / 2);
    if (layers(rank) > layers(middle) || (layers(rank) == layers(middle) && is_nearer)) {
      middle = rank;
    }
  }
  return middle;
}

}  // namespace ptdp
