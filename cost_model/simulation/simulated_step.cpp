#include "cost_model/simulation/simulated_step.h"

#include <algorithm>
#include <cassert>

#include "cost_model/simulation/schedule_shape.h"
#include "cost_model/simulation/simulator.h"
#include "cost_model/simulation/step_builder.h"
#include "cost_model/simulation/step_simulator.h"

namespace ptdp {
namespace {

// Rounds of p microbatches that are simulated at least; more where something runs beside compute,
// whose effects reach further. And how many actions may be.
constexpr std::int64_t kFewestRounds = 2;
constexpr std::int64_t kFewestContendedRounds = 3;
constexpr std::int64_t kCheapActions = 30'000;
constexpr std::int64_t kMostActionsKept = 4'000'000;  // in schedules: 48 MB
// On a stage: F, I and W, and for both directions a message's two ends or a copy.
constexpr std::int64_t kActionsOfAMicrobatch = 7;

/// Which microbatches of a pipeline are simulated: all, or some that go into a rhythm.
struct SimulatedPart {
  std::int64_t num_microbatches = 0;
  std::int64_t rhythm = 0;  ///< The last ones of them, which the others repeat; 0: all are there.
};

SimulatedPart simulated_part(const ParallelConfig& config, std::int64_t num_microbatches,
                             std::int64_t fewest_rounds) {
  const std::int64_t pp = config.pp;
  const std::int64_t per_round = kActionsOfAMicrobatch * config.vpp * pp * pp;
  const std::int64_t rounds = std::max(fewest_rounds, kCheapActions / per_round);
  // A second simulation, of what comes before the rhythm, costs one round less.
  if (num_microbatches <= (2 * rounds - 1) * pp) {
    return {.num_microbatches = num_microbatches};
  }
  return {.num_microbatches = rounds * pp + num_microbatches % pp, .rhythm = pp};
}

/// Whether anything runs beside something else that it could slow down.
bool is_contended(const StepTimes& times, const StepActions& actions) {
  const bool has_data = actions.reduces_gradients || actions.gathers_parameters;
  return (has_data && times.data != DataMode::kBlocking) ||
         times.messages == MessageMode::kOverlapped;
}

void leave_out_messages(StepTimes& times) {
  times.within_node = times.across_nodes = {};
}

void leave_out_ends(StepTimes& times) {
  std::ranges::fill(times.reductions, TransferTime{});
  std::ranges::fill(times.gathers, TransferTime{});
  times.tied = {};
  times.norm = Seconds(0.0);
  std::ranges::fill(times.optimizer, Seconds(0.0));
}

}  // namespace

bool is_simulated(const ParallelConfig& config) {
  return !has_stale_weights(config.schedule);
}

StepActions step_actions(const Scenario& scenario, const ParallelConfig& config) {
  const StepBuckets buckets = step_buckets(scenario, config);
  const auto is_cut = [](const std::vector<int>& counts) {
    return std::ranges::any_of(counts, [](int count) { return count > 0; });
  };
  const bool is_reduced = is_cut(buckets.reductions);
  const bool is_gathered = is_cut(buckets.gathers);
  return {.gradient_buckets = is_reduced    ? buckets.reductions
                              : is_gathered ? buckets.gathers
                                            : std::vector<int>{},
          .reduces_gradients = is_reduced,
          .overlaps_reductions = overlaps_reduction(scenario.stack, config.pp),
          .gathers_parameters = is_gathered,
          .ties_embeddings = !scenario.job.model.untied_embeddings};
}

Seconds step_of(const StackSpec& stack, const SimulatedTimes& times) {
  return stack.optimizer_post_validation ? times.longest_span() : times.makespan();
}

double simulated_actions(const ParallelConfig& config, std::int64_t num_microbatches) {
  const SimulatedPart part = simulated_part(config, num_microbatches, kFewestContendedRounds);
  return 1.0 * kActionsOfAMicrobatch * config.pp * config.vpp *
         static_cast<double>(part.num_microbatches);
}

namespace {

/// A step in which everything takes turns with compute, so that compute alone need be simulated: a
/// pass that is sent takes longer by its message, and a rank does the rest before and after.
class TurnTaking {
 public:
  TurnTaking(const Schedule& schedule, const StepTimes& times, const StepActions& actions)
      : schedule_(schedule), times_(times), actions_(actions) {}

  [[nodiscard]] SimulatedTimes simulate() const {
    SimulatedTimes step = ptdp::simulate(schedule_, durations());
    Seconds shift;
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      if (actions_.gathers_parameters) {
        shift = std::max(shift, buckets_of(rank, times_.gathers) - of(step, rank).start);
      }
    }
    Seconds last;
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      RankTimes& times = of(step, rank);
      times.start += shift;
      times.end += shift;
      if (actions_.reduces_gradients) {
        times.end += buckets_of(rank, times_.reductions);
      }
      last = std::max(last, times.end);
    }
    if (actions_.ties_embeddings && schedule_.pp > 1) {
      const int other = rank_of(schedule_, num_stages(schedule_) - 1, 0);
      const Seconds tied = std::max(of(step, 0).end, of(step, other).end) + time_of(times_.tied);
      of(step, 0).end = of(step, other).end = tied;
      last = std::max(last, tied);
    }
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      Seconds& end = of(step, rank).end;
      end = (times_.norm_waits ? last : end) + times_.norm +
            times_.optimizer[static_cast<std::size_t>(rank)];
    }
    return step;
  }

 private:
  static Seconds time_of(const TransferTime& transfer) {
    return transfer.latency + transfer.transfer;
  }
  static RankTimes& of(SimulatedTimes& times, int rank) {
    return times.ranks[static_cast<std::size_t>(rank)];
  }

  /// From a stage to the next.
  [[nodiscard]] Seconds message_behind(int stage) const {
    const int from = rank_of(schedule_, stage, 0);
    const int to = rank_of(schedule_, stage + 1, 0);
    const auto node_of = [&](int rank) { return times_.node_of[static_cast<std::size_t>(rank)]; };
    return from == to                     ? Seconds(0.0)
           : node_of(from) == node_of(to) ? time_of(times_.within_node)
                                          : time_of(times_.across_nodes);
  }

  [[nodiscard]] std::vector<StageDurations> durations() const {
    std::vector<StageDurations> durations = times_.stages;
    for (std::size_t stage = 0; stage + 1 < durations.size(); ++stage) {
      const Seconds message = message_behind(static_cast<int>(stage));
      durations[stage].forward += message;
      durations[stage + 1].backward += message;
      durations[stage + 1].input_gradient += message;
    }
    return durations;
  }

  [[nodiscard]] Seconds buckets_of(int rank, const std::vector<TransferTime>& bucket) const {
    Seconds sum;
    for (std::size_t stage = 0; stage < bucket.size(); ++stage) {
      if (rank_of(schedule_, static_cast<int>(stage), 0) == rank) {
        sum += actions_.gradient_buckets[stage] * time_of(bucket[stage]);
      }
    }
    return sum;
  }

  const Schedule& schedule_;
  const StepTimes& times_;
  const StepActions& actions_;
};

}  // namespace

/// A configuration's step, to be simulated with all of its times or some.
class StepSimulations::Step {
 public:
  Step(const Scenario& scenario, const ParallelConfig& config, const MicrobatchCosts& costs,
       StepSimulations& simulations)
      : stack_(scenario.stack),
        num_microbatches_(num_microbatches(scenario.job.global_batch_size, config)),
        times_(step_times(scenario, config, costs)),
        actions_(step_actions(scenario, config)) {
    const ScheduleGenerator* generator = find_schedule_generator(name_of(config.schedule));
    assert(generator != nullptr && is_simulated(config));
    times_.shares_links = is_contended(times_, actions_);
    takes_turns_ = !times_.shares_links && placement_of(config.schedule) == StagePlacement::kLooped;
    part_ = simulated_part(config, num_microbatches_,
                           takes_turns_ ? kFewestRounds : kFewestContendedRounds);
    ScheduleShape shape = schedule_shape(scenario, config, costs);
    const auto schedule_of = [&](std::int64_t microbatches) {
      shape.num_microbatches = static_cast<int>(microbatches);
      return simulations.find_schedule(*generator, shape, takes_turns_ ? nullptr : &actions_);
    };
    whole_ = schedule_of(part_.num_microbatches);
    if (part_.rhythm > 0) {
      before_rhythm_ = schedule_of(part_.num_microbatches - part_.rhythm);
      most_work_ = most_work(config);
    }
  }

  [[nodiscard]] const StepTimes& times() const { return times_; }

  /// The step's time with other times in place of its own.
  [[nodiscard]] Seconds simulate(const StepTimes& times) const {
    const SimulatedTimes simulated = run(*whole_, times);
    const Seconds whole = step_of(stack_, simulated);
    if (part_.rhythm == 0) {
      return whole;
    }
    const Seconds before = step_of(stack_, run(*before_rhythm_, times));
    const double others = static_cast<double>(num_microbatches_ - part_.num_microbatches) /
                          static_cast<double>(part_.rhythm);
    // What these hide of the reductions may make them look shorter than their work.
    const Seconds work =
        static_cast<double>(part_.rhythm) *
        (takes_turns_ ? simulated.most_work() / static_cast<double>(part_.num_microbatches)
                      : most_work_);
    return whole + others * std::max(whole - before, work);
  }

 private:
  /// Passes of a microbatch on the busiest rank, with nothing beside them that slows them down.
  [[nodiscard]] Seconds most_work(const ParallelConfig& config) const {
    Seconds most;
    for (int rank = 0; rank < config.pp; ++rank) {
      Seconds work;
      for_each_virtual_stage(config, rank, [&](int stage) {
        const StageDurations& of = times_.stages[static_cast<std::size_t>(stage)];
        work += of.forward + of.backward;
      });
      most = std::max(most, work);
    }
    return most / num_copies(config);
  }

  [[nodiscard]] SimulatedTimes run(const Schedule& schedule, const StepTimes& times) const {
    return takes_turns_ ? TurnTaking(schedule, times, actions_).simulate()
                        : simulate_step_times(schedule, times);
  }

  const StackSpec& stack_;
  std::int64_t num_microbatches_;
  SimulatedPart part_;
  StepTimes times_;
  StepActions actions_;
  bool takes_turns_ = false;
  Seconds most_work_;
  std::shared_ptr<const Schedule> whole_;
  std::shared_ptr<const Schedule> before_rhythm_;
};

Seconds StepSimulations::simulate(const Scenario& scenario, const ParallelConfig& config,
                                  const MicrobatchCosts& costs) {
  const Step step(scenario, config, costs, *this);
  return step.simulate(step.times());
}

StepParts StepSimulations::parts(const Scenario& scenario, const ParallelConfig& config,
                                 const MicrobatchCosts& costs) {
  const Step step(scenario, config, costs, *this);
  const Seconds whole = step.simulate(step.times());
  StepTimes times = step.times();
  leave_out_ends(times);
  times.overlap_slowdown = 0.0;
  const Seconds with_messages = std::min(step.simulate(times), whole);
  leave_out_messages(times);
  times.shares_links = false;
  return {.passes = std::min(step.simulate(times), with_messages),
          .with_messages = with_messages,
          .whole = whole};
}

std::shared_ptr<const Schedule> StepSimulations::find_schedule(const ScheduleGenerator& generator,
                                                               const ScheduleShape& shape,
                                                               const StepActions* actions) {
  const int flags =
      actions == nullptr
          ? -1
          : (actions->reduces_gradients ? 1 : 0) + (actions->overlaps_reductions ? 2 : 0) +
                (actions->gathers_parameters ? 4 : 0) + (actions->ties_embeddings ? 8 : 0);
  const Key key(generator.name, shape.pp, shape.vpp, shape.num_microbatches, shape.ticks,
                shape.message_ticks, shape.memory_limit, shape.shortens_spans,
                actions == nullptr ? std::vector<int>{} : actions->gradient_buckets, flags);
  const auto found = schedules_.find(key);
  if (found != schedules_.end()) {
    return found->second;
  }
  Schedule compute = generator.generate(shape);
  auto schedule = std::make_shared<const Schedule>(
      actions == nullptr ? std::move(compute) : complete(compute, *actions));
  num_actions_ += num_actions(*schedule);
  if (num_actions_ > kMostActionsKept) {
    schedules_.clear();
    num_actions_ = num_actions(*schedule);
  }
  schedules_.emplace(key, schedule);
  return schedule;
}

}  // namespace ptdp
