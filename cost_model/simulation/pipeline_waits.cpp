#include "cost_model/simulation/pipeline_waits.h"

#include <algorithm>
#include <cassert>

#include "cost_model/analytic/step_terms.h"
#include "cost_model/schedule/generators.h"
#include "cost_model/simulation/simulator.h"

namespace ptdp {
namespace {

// Microbatches that are simulated, and of these the last ones that set the rhythm, in times p.
constexpr std::int64_t kSimulatedRounds = 16;
constexpr std::int64_t kRhythmRounds = 8;
constexpr double kBelowRounding = 1.0 - 1e-12;

/// A schedule to be simulated, and what with.
struct Pipeline {
  const ScheduleGenerator* generator = nullptr;
  ScheduleShape shape;
  StagePlacement placement = StagePlacement::kLooped;
  std::vector<StageDurations> durations;
  Seconds exchange;
  bool waits_for_all = true;  ///< Before the next iteration.
};

Pipeline pipeline_of(const Scenario& scenario, const ParallelConfig& config,
                     const MicrobatchCosts& costs) {
  Pipeline pipeline{.generator = find_schedule_generator(name_of(config.schedule)),
                    .shape = {.pp = config.pp,
                              .vpp = config.vpp,
                              .num_microbatches = static_cast<int>(
                                  num_microbatches(scenario.job.global_batch_size, config))},
                    .placement = placement_of(config.schedule),
                    .durations = virtual_stage_durations(scenario, config, costs),
                    .exchange = exchange_time(
                        scenario, config, place_groups(config, scenario.cluster), /*messages=*/1.0),
                    .waits_for_all = !scenario.stack.optimizer_post_validation};
  assert(pipeline.generator != nullptr && !pipeline.generator->find_conflict(pipeline.shape));
  return pipeline;
}

/// The virtual stages of a rank, each with the share of microbatches that come there.
struct HeldStages {
  std::vector<int> stages;
  double share = 1.0;
};

HeldStages stages_of(const Pipeline& pipeline, int rank) {
  const int pp = pipeline.shape.pp;
  switch (pipeline.placement) {
    case StagePlacement::kV:
      return {.stages = {rank, 2 * pp - 1 - rank}};
    case StagePlacement::kBidirectional:
      return {.stages = {rank, pp - 1 - rank}, .share = 0.5};
    case StagePlacement::kLooped:
      break;
  }
  HeldStages held;
  for (int stage = rank; stage < pp * pipeline.shape.vpp; stage += pp) {
    held.stages.push_back(stage);
  }
  return held;
}

Seconds work_of(const StageDurations& stage) {
  return stage.forward + stage.backward;
}

/// Of the busiest rank for one microbatch.
Seconds most_work(const Pipeline& pipeline) {
  Seconds most;
  for (int rank = 0; rank < pipeline.shape.pp; ++rank) {
    const HeldStages held = stages_of(pipeline, rank);
    Seconds work;
    for (const int stage : held.stages) {
      work += held.share * work_of(pipeline.durations[static_cast<std::size_t>(stage)]);
    }
    most = std::max(most, work);
  }
  return most;
}

/// From one iteration's begin to the next one's.
Seconds period_of(const Pipeline& pipeline, const Schedule& schedule, Seconds exchange) {
  const SimulatedTimes times = simulate(schedule, pipeline.durations, exchange);
  if (pipeline.waits_for_all) {
    return times.makespan();
  }
  Seconds longest;
  for (const RankTimes& rank : times.ranks) {
    longest = std::max(longest, rank.end - rank.start);
  }
  return longest;
}

/// With `num_microbatches` in place of the pipeline's own.
PipelineWaits waits_of(Pipeline pipeline, int num_microbatches) {
  pipeline.shape.num_microbatches = num_microbatches;
  const Schedule schedule = pipeline.generator->generate(pipeline.shape);
  const Seconds alone = period_of(pipeline, schedule, Seconds(0.0));
  const Seconds together = period_of(pipeline, schedule, pipeline.exchange);
  return {.bubble = alone - num_microbatches * most_work(pipeline),
          .messages = std::max(together - alone, Seconds(0.0))};
}

/// Sums of what the stages before each one take, and those before the end.
struct Sums {
  std::vector<Seconds> forward = {Seconds(0.0)};
  std::vector<Seconds> input_gradient = {Seconds(0.0)};
};

/// The two terms of least_waits on one rank, from its first action on or from the beginning.
Seconds least_idle(const Pipeline& pipeline, const Sums& sums, int rank) {
  const HeldStages held = stages_of(pipeline, rank);
  const Seconds all_forward = sums.forward.back();
  const Seconds all_back = sums.input_gradient.back();
  Seconds longest_forward;
  Seconds longest_backward;
  Seconds first_action = all_forward;
  Seconds first_gradient = all_forward + all_back;
  Seconds return_trip = all_forward + all_back;
  for (const int held_stage : held.stages) {
    const auto stage = static_cast<std::size_t>(held_stage);
    const StageDurations& of = pipeline.durations[stage];
    const Seconds back_to_here = all_back - sums.input_gradient[stage + 1];
    longest_forward = std::max(longest_forward, of.forward);
    longest_backward = std::max(longest_backward, of.input_gradient + of.weight_gradient);
    first_action = std::min(first_action, sums.forward[stage]);
    first_gradient = std::min(first_gradient, all_forward + back_to_here);
    return_trip = std::min(return_trip, all_forward - sums.forward[stage + 1] + back_to_here +
                                            of.input_gradient + of.weight_gradient);
  }
  const int kept = pipeline.generator->peak_activations(pipeline.shape, rank);
  const Seconds skipped = pipeline.waits_for_all ? Seconds(0.0) : first_action;
  const Seconds before = std::max(first_action, first_gradient - kept * longest_forward) - skipped;
  const Seconds after = std::max(return_trip - kept * longest_backward, Seconds(0.0));
  const double forward_passes =
      held.share * static_cast<double>(held.stages.size()) * pipeline.shape.num_microbatches;
  return forward_passes > kept ? before + after : std::max(before, after);
}

}  // namespace

double layers_of_virtual_stage(const TransformerConfig& model, const ParallelConfig& config,
                               int virtual_stage) {
  return config.layers_per_stage.empty()
             ? 1.0 * model.num_layers / config.pp / config.vpp
             : config.layers_per_stage[static_cast<std::size_t>(virtual_stage)];
}

std::vector<StageDurations> virtual_stage_durations(const Scenario& scenario,
                                                    const ParallelConfig& config,
                                                    const MicrobatchCosts& costs) {
  const LayerCosts& layer = costs.layer;
  const Seconds forward = layer.forward.total();
  const Seconds weight_gradient = layer.weight_gradient.total();
  const Seconds input_gradient =
      layer.backward.total() - weight_gradient + layer.recompute(config.recompute).total();
  const int num_stages = config.pp * config.vpp;
  std::vector<StageDurations> durations;
  durations.reserve(static_cast<std::size_t>(num_stages));
  for (int stage = 0; stage < num_stages; ++stage) {
    const double layers = layers_of_virtual_stage(scenario.job.model, config, stage);
    durations.push_back(stage_durations(layers * forward + scenario.stack.microbatch_overhead,
                                        layers * input_gradient, layers * weight_gradient));
  }
  const auto add = [](StageDurations& stage, Seconds whole, Seconds in_forward, Seconds in_weight) {
    stage = stage_durations(stage.forward + in_forward,
                            stage.input_gradient + whole - in_forward - in_weight,
                            stage.weight_gradient + in_weight);
  };
  add(durations.front(), costs.embedding.total(), costs.embedding_forward, Seconds(0.0));
  add(durations.back(), costs.logits.total(), costs.logits_forward, costs.logits_weight_gradient);
  return durations;
}

PipelineWaits simulated_waits(const Scenario& scenario, const ParallelConfig& config,
                              const MicrobatchCosts& costs) {
  const Pipeline pipeline = pipeline_of(scenario, config, costs);
  const int whole = pipeline.shape.num_microbatches;
  const std::int64_t pp = config.pp;
  const std::int64_t simulated = kSimulatedRounds * pp + whole % pp;
  if (whole <= simulated) {
    return waits_of(pipeline, whole);
  }
  const auto last = static_cast<int>(simulated);
  const auto rhythm = static_cast<int>(kRhythmRounds * pp);
  const PipelineWaits waits = waits_of(pipeline, last);
  const PipelineWaits before = waits_of(pipeline, last - rhythm);
  const double rest = static_cast<double>(whole - last) / rhythm;
  const auto growth = [rest](Seconds now, Seconds then) {
    return now + rest * std::max(now - then, Seconds(0.0));
  };
  return {.bubble = growth(waits.bubble, before.bubble),
          .messages = growth(waits.messages, before.messages)};
}

PipelineWaits least_waits(const Scenario& scenario, const ParallelConfig& config,
                          const MicrobatchCosts& costs) {
  const Pipeline pipeline = pipeline_of(scenario, config, costs);
  Sums sums;
  for (const StageDurations& stage : pipeline.durations) {
    sums.forward.push_back(sums.forward.back() + stage.forward);
    sums.input_gradient.push_back(sums.input_gradient.back() + stage.input_gradient);
  }
  const double microbatches = pipeline.shape.num_microbatches;
  Seconds longest;
  for (int rank = 0; rank < config.pp; ++rank) {
    const HeldStages held = stages_of(pipeline, rank);
    Seconds work;
    for (const int stage : held.stages) {
      work += held.share * work_of(pipeline.durations[static_cast<std::size_t>(stage)]);
    }
    longest = std::max(longest, microbatches * work + least_idle(pipeline, sums, rank));
  }
  const Seconds bubble = kBelowRounding * longest - microbatches * most_work(pipeline);
  return {.bubble = bubble};
}

const PipelineWaits& WaitsCache::find(const Scenario& scenario, const ParallelConfig& config,
                                      const MicrobatchCosts& costs) {
  const Pipeline pipeline = pipeline_of(scenario, config, costs);
  std::vector<double> durations;
  durations.reserve(3 * pipeline.durations.size());
  for (const StageDurations& stage : pipeline.durations) {
    durations.push_back(stage.forward.value());
    durations.push_back(stage.input_gradient.value());
    durations.push_back(stage.weight_gradient.value());
  }
  const Key key(config.schedule, config.pp, pipeline.shape.num_microbatches,
                pipeline.exchange.value(), std::move(durations));
  const auto found = waits_.find(key);
  return found != waits_.end()
             ? found->second
             : waits_.emplace(key, simulated_waits(scenario, config, costs)).first->second;
}

}  // namespace ptdp
