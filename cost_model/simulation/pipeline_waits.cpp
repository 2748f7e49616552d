#include "cost_model/simulation/pipeline_waits.h"

#include <algorithm>
#include <cassert>

#include "cost_model/analytic/recomputed_layers.h"
#include "cost_model/analytic/step_terms.h"
#include "cost_model/schedule/generators.h"
#include "cost_model/simulation/schedule_shape.h"
#include "cost_model/simulation/simulator.h"

namespace ptdp {
namespace {

// Rounds of p microbatches that are simulated at least, and how many actions may be.
constexpr std::int64_t kFewestRounds = 4;
constexpr std::int64_t kCheapActions = 30'000;
constexpr std::int64_t kPasses = 3;                   // F, I and W
constexpr std::int64_t kMostActionsKept = 4'000'000;  // in schedules: 48 MB
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
                    .placement = placement_of(config.schedule),
                    .durations = virtual_stage_durations(scenario, config, costs),
                    .exchange = exchange_time(
                        scenario, config, place_groups(config, scenario.cluster), /*messages=*/1.0),
                    .waits_for_all = !scenario.stack.optimizer_post_validation};
  pipeline.shape = schedule_shape(config, num_microbatches(scenario.job.global_batch_size, config),
                                  pipeline.durations, pipeline.exchange, scenario.stack);
  assert(pipeline.generator != nullptr && !pipeline.generator->find_conflict(pipeline.shape));
  return pipeline;
}

/// The virtual stages of a rank, each with the share of microbatches that come there.
struct HeldStages {
  std::vector<int> stages = {};
  double share = 1.0;
};

HeldStages stages_of(const Pipeline& pipeline, int rank) {
  HeldStages held{.share = pipeline.placement == StagePlacement::kBidirectional ? 0.5 : 1.0};
  for_each_virtual_stage(pipeline.placement, pipeline.shape.pp, pipeline.shape.vpp, rank,
                         [&](int stage) { held.stages.push_back(stage); });
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
  return pipeline.waits_for_all ? times.makespan() : times.longest_span();
}

/// Which microbatches of a pipeline are simulated: all, or some that go into a rhythm.
struct SimulatedPart {
  std::int64_t num_microbatches = 0;
  std::int64_t rhythm = 0;  ///< The last ones of them, which the others repeat; 0: all are there.
};

SimulatedPart simulated_part(int pp, int vpp, std::int64_t num_microbatches) {
  const std::int64_t per_round = kPasses * vpp * pp * pp;
  const std::int64_t rounds = std::max(kFewestRounds, kCheapActions / per_round);
  const std::int64_t rhythm = rounds / 2 * pp;
  // A second simulation, of what comes before the rhythm, costs rounds - rhythm.
  if (num_microbatches <= 2 * rounds * pp - rhythm) {
    return {.num_microbatches = num_microbatches};
  }
  return {.num_microbatches = rounds * pp + num_microbatches % pp, .rhythm = rhythm};
}

/// A pipeline's schedules of so many microbatches as are simulated.
class Schedules {
 public:
  Schedules(const Pipeline& pipeline, ScheduleCache& cache)
      : pipeline_(pipeline),
        part_(
            simulated_part(pipeline.shape.pp, pipeline.shape.vpp, pipeline.shape.num_microbatches)),
        whole_(with_microbatches(part_.num_microbatches, cache)) {
    if (part_.rhythm > 0) {
      before_rhythm_ = with_microbatches(part_.num_microbatches - part_.rhythm, cache);
    }
  }

  /// Time of an iteration beyond the work of the busiest rank.
  [[nodiscard]] Seconds wait(Seconds exchange) const {
    const Seconds wait = wait_of(*whole_, exchange);
    if (part_.rhythm == 0) {
      return wait;
    }
    const Seconds growth = wait - wait_of(*before_rhythm_, exchange);
    const std::int64_t others = pipeline_.shape.num_microbatches - part_.num_microbatches;
    return wait + std::max(growth, Seconds(0.0)) *
                      (static_cast<double>(others) / static_cast<double>(part_.rhythm));
  }

 private:
  [[nodiscard]] std::shared_ptr<const Schedule> with_microbatches(std::int64_t num_microbatches,
                                                                  ScheduleCache& cache) const {
    ScheduleShape shape = pipeline_.shape;
    shape.num_microbatches = static_cast<int>(num_microbatches);
    return cache.find(*pipeline_.generator, shape);
  }

  /// Not below zero, where rounding may take it.
  [[nodiscard]] Seconds wait_of(const Schedule& schedule, Seconds exchange) const {
    return std::max(
        period_of(pipeline_, schedule, exchange) - schedule.num_microbatches * most_work(pipeline_),
        Seconds(0.0));
  }

  const Pipeline& pipeline_;
  SimulatedPart part_;
  std::shared_ptr<const Schedule> whole_;
  std::shared_ptr<const Schedule> before_rhythm_;
};

/// Sums of what the stages before each one take, and those before the end.
struct Sums {
  std::vector<Seconds> forward = {Seconds(0.0)};
  std::vector<Seconds> input_gradient = {Seconds(0.0)};
};

/// How long a stage keeps a microbatch's activations at least, and how much of that comes after its
/// forward pass.
struct Stay {
  Seconds whole;
  Seconds after_forward;
};
Stay least_stay(const Pipeline& pipeline, const Sums& sums, int held_stage) {
  const auto stage = static_cast<std::size_t>(held_stage);
  const StageDurations& of = pipeline.durations[stage];
  const Seconds after_forward = sums.forward.back() - sums.forward[stage + 1] +
                                sums.input_gradient.back() - sums.input_gradient[stage] +
                                of.weight_gradient;
  return {.whole = of.forward + after_forward, .after_forward = after_forward};
}

/// least_waits' bound of an iteration on one rank: from its own first action on where no rank waits
/// for all, else from the beginning.
Seconds least_period(const Pipeline& pipeline, const Sums& sums, int rank) {
  const HeldStages held = stages_of(pipeline, rank);
  const double microbatches = held.share * pipeline.shape.num_microbatches;
  const Seconds all = sums.forward.back() + sums.input_gradient.back();
  Seconds work;
  Seconds stays;
  Seconds longest_forward;
  Seconds longest_backward;
  Seconds first_action = all;
  Seconds first_gradient = all;
  Seconds return_trip = all;
  for (const int held_stage : held.stages) {
    const auto stage = static_cast<std::size_t>(held_stage);
    const StageDurations& of = pipeline.durations[stage];
    const Stay stay = least_stay(pipeline, sums, held_stage);
    work += microbatches * work_of(of);
    stays += microbatches * stay.whole;
    longest_forward = std::max(longest_forward, of.forward);
    longest_backward = std::max(longest_backward, of.input_gradient + of.weight_gradient);
    first_action = std::min(first_action, sums.forward[stage]);
    first_gradient = std::min(first_gradient, all - sums.input_gradient[stage + 1]);
    return_trip = std::min(return_trip, stay.after_forward);
  }
  const int kept = pipeline.generator->peak_activations(pipeline.shape, rank);
  const Seconds begin = pipeline.waits_for_all ? first_action : Seconds(0.0);
  const Seconds before =
      std::max(Seconds(0.0), first_gradient - kept * longest_forward - first_action) + begin;
  const Seconds after = std::max(return_trip - kept * longest_backward, Seconds(0.0));
  const bool goes_on = microbatches * static_cast<double>(held.stages.size()) > kept;
  return std::max(work + (goes_on ? before + after : std::max(before, after)),
                  stays / kept + begin);
}

}  // namespace

std::vector<StageDurations> virtual_stage_durations(const Scenario& scenario,
                                                    const ParallelConfig& config,
                                                    const MicrobatchCosts& costs) {
  const bool is_partial = recomputes_some(config);
  // Of a layer of each kind.
  std::array<StageDurations, kLayerKinds.size()> of_layer;
  constexpr double each_pass = 0.5;  // of what both hide
  for (std::size_t kind = 0; kind < of_layer.size(); ++kind) {
    const LayerCosts& layer = costs.layers[kind];
    const Seconds weight_gradient = layer.weight_gradient.total();
    of_layer[kind] =
        stage_durations(layer.forward.total(),
                        layer.backward.total() - weight_gradient +
                            (is_partial ? Seconds(0.0) : layer.recompute(config.recompute).total()),
                        weight_gradient, each_pass * layer.hidden_dispatch);
  }
  const int num_stages = config.pp * config.vpp;
  std::vector<StageDurations> durations;
  durations.reserve(static_cast<std::size_t>(num_stages));
  for (int stage = 0; stage < num_stages; ++stage) {
    const LayerCounts layers = layers_of_virtual_stage(scenario.job.model, config, stage);
    Seconds forward;
    Seconds input_gradient;
    Seconds weight_gradient;
    Seconds alone;
    for (std::size_t kind = 0; kind < layers.size(); ++kind) {
      forward += layers[kind] * of_layer[kind].forward;
      input_gradient += layers[kind] * of_layer[kind].input_gradient;
      weight_gradient += layers[kind] * of_layer[kind].weight_gradient;
      alone += layers[kind] * of_layer[kind].alone;
    }
    if (is_partial) {
      const LayerCounts recomputed = recomputed_of_virtual_stage(scenario.job.model, config, stage);
      input_gradient += recomputation(costs, config, recomputed).total();
    }
    durations.push_back(stage_durations(forward + scenario.stack.microbatch_overhead,
                                        input_gradient, weight_gradient, alone));
  }
  const auto add = [](StageDurations& stage, Seconds whole, Seconds in_forward, Seconds in_weight) {
    stage = stage_durations(stage.forward + in_forward,
                            stage.input_gradient + whole - in_forward - in_weight,
                            stage.weight_gradient + in_weight, stage.alone);
  };
  add(durations.front(), costs.embedding.total(), costs.embedding_forward, Seconds(0.0));
  add(durations.back(), costs.logits.total(), costs.logits_forward, costs.logits_weight_gradient);
  return durations;
}

double simulated_actions(const ParallelConfig& config, std::int64_t num_microbatches) {
  const SimulatedPart part = simulated_part(config.pp, config.vpp, num_microbatches);
  return 1.0 * kPasses * config.pp * config.vpp * static_cast<double>(part.num_microbatches);
}

Seconds simulated_wait(const Scenario& scenario, const ParallelConfig& config,
                       const MicrobatchCosts& costs) {
  const Pipeline pipeline = pipeline_of(scenario, config, costs);
  ScheduleCache schedules;
  return Schedules(pipeline, schedules).wait(pipeline.exchange);
}

PipelineWaits simulated_waits(const Scenario& scenario, const ParallelConfig& config,
                              const MicrobatchCosts& costs) {
  const Pipeline pipeline = pipeline_of(scenario, config, costs);
  ScheduleCache cache;
  const Schedules schedules(pipeline, cache);
  const Seconds all = schedules.wait(pipeline.exchange);
  const Seconds bubble = std::min(schedules.wait(Seconds(0.0)), all);
  return {.bubble = bubble, .messages = all - bubble};
}

PipelineWaits least_waits(const Scenario& scenario, const ParallelConfig& config,
                          const MicrobatchCosts& costs) {
  const Pipeline pipeline = pipeline_of(scenario, config, costs);
  Sums sums;
  for (const StageDurations& stage : pipeline.durations) {
    sums.forward.push_back(sums.forward.back() + stage.forward);
    sums.input_gradient.push_back(sums.input_gradient.back() + stage.input_gradient);
  }
  Seconds longest;
  for (int rank = 0; rank < config.pp; ++rank) {
    longest = std::max(longest, least_period(pipeline, sums, rank));
  }
  const Seconds work = pipeline.shape.num_microbatches * most_work(pipeline);
  return {.bubble = kBelowRounding * longest - work};
}

std::shared_ptr<const Schedule> ScheduleCache::find(const ScheduleGenerator& generator,
                                                    const ScheduleShape& shape) {
  const Key key(generator.name, shape.pp, shape.vpp, shape.num_microbatches, shape.ticks,
                shape.message_ticks, shape.memory_limit, shape.shortens_spans);
  const auto found = schedules_.find(key);
  if (found != schedules_.end()) {
    return found->second;
  }
  auto schedule = std::make_shared<const Schedule>(generator.generate(shape));
  num_actions_ += num_actions(*schedule);
  if (num_actions_ > kMostActionsKept) {
    schedules_.clear();
    num_actions_ = num_actions(*schedule);
  }
  schedules_.emplace(key, schedule);
  return schedule;
}

Seconds WaitsCache::find(const Scenario& scenario, const ParallelConfig& config,
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
                pipeline.shape.memory_limit, pipeline.exchange.value(), std::move(durations));
  const auto found = waits_.find(key);
  return found != waits_.end()
             ? found->second
             : waits_.emplace(key, Schedules(pipeline, schedules_).wait(pipeline.exchange))
                   .first->second;
}

}  // namespace ptdp
