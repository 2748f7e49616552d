// Simulates a plan's step, with its own schedule or another.
#include "planner/plan/plan_simulation.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost_model/error.h"
#include "cost_model/iteration/simulated_step.h"
#include "cost_model/iteration/step_builder.h"
#include "cost_model/partition/balance_equal_layers.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "cost_model/simulation/engine/step_simulator.h"
#include "planner/constraints/constraint.h"

namespace ptdp {
namespace {

void scale(TransferTime& transfer, double factor) {
  transfer.latency = transfer.latency * factor;
  transfer.transfer = transfer.transfer * factor;
}

/// Returns the times, each multiplied with the calibration's factor as the prediction is.
StepTimes calibrated(StepTimes times, double factor) {
  for (StageDurations& stage : times.stages) {
    for (Seconds StageDurations::*time :
         {&StageDurations::forward, &StageDurations::backward, &StageDurations::input_gradient,
          &StageDurations::weight_gradient, &StageDurations::recompute, &StageDurations::alone}) {
      stage.*time = stage.*time * factor;
    }
  }
  for (TransferTime* transfer : {&times.within_node, &times.across_nodes, &times.tied}) {
    scale(*transfer, factor);
  }
  for (std::vector<TransferTime>* transfers : {&times.hops, &times.reductions, &times.gathers}) {
    for (TransferTime& transfer : *transfers) {
      scale(transfer, factor);
    }
  }
  times.norm = times.norm * factor;
  for (Seconds& optimizer : times.optimizer) {
    optimizer = optimizer * factor;
  }
  return times;
}

/// Returns the memory that a step uses: activations per microbatch by virtual stage, and the fixed
/// rest by pipeline rank. Messages and the working set of a pass belong to the plan's buffers,
/// which every rank keeps: allocators give nothing back within a step.
MemoryUse memory_use(const Plan& plan) {
  MemoryUse use{.activations = {}, .fixed = {}};
  for (const MemoryBreakdown& stage : plan.memory.stages) {
    use.fixed.push_back(stage.total() - stage.activations);
  }
  for (int stage = 0; stage < plan.config.pp * plan.config.vpp; ++stage) {
    use.activations.push_back(virtual_stage_activations({plan.scenario, plan.config}, stage));
  }
  return use;
}

std::vector<MemoryProfile> profiles(const Plan& plan, const Schedule& schedule,
                                    const Timeline& timeline) {
  MemoryUse use = memory_use(plan);
  std::vector<MemoryProfile> result;
  result.reserve(schedule.orders.size());
  for (int rank = 0; rank < plan.config.pp; ++rank) {
    MemoryProfile profile = memory_profile(schedule, timeline.spans[rank], rank, use);
    // A plan of ptdp's runtime counts the working set of the pass at the worst moment, when fewer
    // activations may be held than at another moment.
    const Bytes excess = profile.peak - plan.memory.stages[rank].total();
    if (excess > Bytes(0.0) && plan.scenario.stack.memory_model == MemoryModel::kPtdp) {
      use.fixed[rank] = use.fixed[rank] - excess;
      profile = memory_profile(schedule, timeline.spans[rank], rank, use);
    }
    result.push_back(std::move(profile));
  }
  return result;
}

void check(const Plan& plan, const SimulationOptions& options) {
  for (const Straggler& straggler : options.stragglers) {
    if (straggler.rank >= plan.config.pp) {
      throw Error(fmt::format("--slow: expected a rank of the pipeline, 0 to {}, got {}",
                              plan.config.pp - 1, straggler.rank));
    }
  }
}

/// Returns the shape of the plan's schedule with `vpp` virtual stages per rank.
ScheduleShape shape_of(const Plan& plan, int vpp) {
  return {.pp = plan.config.pp,
          .vpp = vpp,
          .num_microbatches = static_cast<int>(plan.schedule.num_microbatches)};
}

/// Returns layers per virtual stage as the search spreads them; nullopt when the stack cannot run
/// an uneven split or there is none.
std::optional<std::vector<int>> uneven_layers(const PlannedJob& job) {
  return job.stack().can_run.uneven_layers ? balanced_layers(job) : std::nullopt;
}

/// Returns how long the busiest rank waits for the others' passes when nothing else takes time.
Seconds bubble_of(const Plan& plan, const Schedule& schedule, const StepTimes& times) {
  if (!is_simulated(plan.config)) {
    return Seconds(0.0);
  }
  const SimulatedTimes passes = simulate_step_times(schedule, passes_alone(times));
  const Seconds step = step_of(plan.scenario.stack, passes);
  return beyond_rounding(step - passes.most_work(), step);
}

ScheduleComparison compare(const Plan& plan, const ScheduleTraits& traits,
                           const SimulationOptions& options) {
  ScheduleComparison row{.schedule = std::string(traits.name)};
  Plan other = plan;
  if (const auto conflict = change_schedule(other, traits)) {
    row.conflict = *conflict;
    return row;
  }
  row.vpp = other.config.vpp;
  row.changes_semantics = !traits.is_synchronous;
  const Schedule schedule = complete_schedule(other);
  const StepTimes times = plan_times(other, options);
  const Timeline timeline = simulate_step(schedule, times);
  row.step = step_of(other, timeline.times);
  row.makespan = timeline.times.makespan();
  row.bubble = bubble_of(other, schedule, times);
  row.not_computing = timeline.times.not_computing();
  for (const MemoryProfile& profile : profiles(other, schedule, timeline)) {
    row.peak_memory = std::max(row.peak_memory, profile.peak);
  }
  row.planned_memory = other.memory.peak();
  row.fits = row.planned_memory <= usable_memory(plan.scenario.cluster.gpu, plan.memory_headroom);
  row.is_run_by_stack = is_run_by_stack(plan.scenario.stack, other.config);
  return row;
}

/// Returns the memory limit of a searched schedule in microbatches: 2p − 1 as ZB-H2 holds when that
/// fits into the plan's memory, else p as ZB-H1 holds.
int largest_limit(const Plan& plan, ParallelConfig config) {
  config.memory_limit = 2 * config.pp - 1;
  const Bytes capacity = usable_memory(plan.scenario.cluster.gpu, plan.memory_headroom);
  return peak_memory({plan.scenario, config}) <= capacity ? *config.memory_limit : config.pp;
}

}  // namespace

StepTimes plan_times(const Plan& plan, const SimulationOptions& options) {
  StepTimes times =
      calibrated(step_times({plan.scenario, plan.config}), plan.predicted.calibration_factor);
  if (!is_simulated(plan.config)) {
    times.overlap_slowdown = 0.0;  // the sum of terms counts it in data_parallel
  }
  times.shares_links =
      options.shares_links && is_contended(times, step_actions({plan.scenario, plan.config}));
  times.stragglers = options.stragglers;
  times.jitter = options.jitter;
  return times;
}

Seconds step_of(const Plan& plan, const SimulatedTimes& times) {
  if (is_simulated(plan.config)) {
    return step_of(plan.scenario.stack, times);
  }
  // Without a flush, a step takes what the busiest rank computes, and what it does besides passes.
  const CostBreakdown cost = iteration_cost({plan.scenario, plan.config});
  return times.most_work() +
         plan.predicted.calibration_factor *
             (cost.pipeline_messages + cost.data_parallel + cost.embedding_all_reduce +
              cost.optimizer + cost.core_contention);
}

std::optional<std::string> change_schedule(Plan& plan, const ScheduleTraits& traits) {
  int vpp = plan.config.vpp;
  auto conflict = traits.find_conflict(shape_of(plan, vpp));
  for (const int other : {1, 2}) {
    if (conflict && conflict->size == "vpp") {
      vpp = other;
      conflict = traits.find_conflict(shape_of(plan, vpp));
    }
  }
  if (conflict) {
    return fmt::format("expects {} {}, got {}", conflict->size, conflict->expected,
                       conflict->found);
  }
  ParallelConfig config = plan.config;
  config.schedule = traits.kind;
  config.vpp = vpp;
  if (config.schedule != plan.config.schedule) {
    config.memory_limit.reset();
  }
  if (vpp != plan.config.vpp) {
    config.layers_per_stage.clear();
  }
  const int num_layers = plan.scenario.job.model.num_layers;
  if (config.layers_per_stage.empty() && num_layers % (config.pp * vpp) != 0) {
    const auto layers = uneven_layers({plan.scenario, config});
    if (!layers) {
      return fmt::format("expects layers that {} stages divide, got {}", config.pp * vpp,
                         num_layers);
    }
    config.layers_per_stage = *layers;
  }
  if (traits_of(config.schedule).is_searched && !config.memory_limit) {
    config.memory_limit = largest_limit(plan, config);
  }
  plan.config = config;
  plan.schedule = schedule_recipe({plan.scenario, config});
  plan.memory = plan_memory({plan.scenario, config});
  return std::nullopt;
}

Schedule complete_schedule(const Plan& plan) {
  return complete(make_schedule(plan.schedule, plan.config.pp, plan.config.vpp),
                  step_actions({plan.scenario, plan.config}));
}

Schedule complete_schedule(const Plan& plan, const Schedule& orders) {
  return is_compute_only(orders) ? complete(orders, step_actions({plan.scenario, plan.config}))
                                 : orders;
}

double num_step_actions(const Plan& plan) {
  return most_actions(plan.config.pp, plan.config.vpp, plan.schedule.num_microbatches);
}

PlanSimulation simulate_plan(const Plan& plan, const SimulationOptions& options) {
  check(plan, options);
  PlanSimulation result;
  result.schedule = complete_schedule(plan);
  result.times = plan_times(plan, options);
  result.timeline = simulate_step(result.schedule, result.times);
  result.critical_path = critical_path(result.schedule, result.times, result.timeline);
  result.elasticities = slowdown_elasticities(result.critical_path);
  result.memory = profiles(plan, result.schedule, result.timeline);
  result.bubble = bubble_of(plan, result.schedule, result.times);
  result.step = step_of(plan, result.timeline.times);
  return result;
}

std::vector<ScheduleComparison> compare_schedules(const Plan& plan,
                                                  const SimulationOptions& options) {
  check(plan, options);
  std::vector<ScheduleComparison> rows;
  rows.reserve(kSchedules.size());
  for (const ScheduleTraits& schedule : kSchedules) {
    rows.push_back(compare(plan, schedule, options));
  }
  return rows;
}

}  // namespace ptdp
