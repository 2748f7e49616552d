// Simulates steps in full or, with many microbatches, up to their rhythm.
#include "cost_model/iteration/simulated_step.h"

#include <algorithm>
#include <cassert>

#include "cost_model/iteration/schedule_shape.h"
#include "cost_model/simulation/engine/step_simulator.h"
#include "cost_model/simulation/turn_taking.h"

namespace ptdp {
namespace {

// Fewest rounds of p microbatches that are simulated. Where something runs beside compute, they are
// more, since its effects reach further.
constexpr std::int64_t kFewestRounds = 2;
constexpr std::int64_t kFewestContendedRounds = 3;
/// Actions up to which a step is simulated in full.
constexpr std::int64_t kCheapActions = 30'000;
constexpr std::int64_t kMostActionsKept = 4'000'000;  // in all schedules: 48 MB
// Makes a bound lower by more than rounding: the two engines' sums are in another order.
constexpr double kBelowContended = 1.0 - 1e-9;

/// Which microbatches of a step are simulated: all, or some that go into a rhythm.
struct SimulatedPart {
  std::int64_t num_microbatches = 0;  ///< Microbatches that are simulated.
  /// How many of them, the last ones, the others repeat; 0: all are simulated.
  std::int64_t rhythm = 0;
};

/// Chooses how many microbatches to simulate, in `fewest_rounds` rounds or more.
SimulatedPart simulated_part(const ParallelConfig& config, std::int64_t num_microbatches,
                             std::int64_t fewest_rounds) {
  const std::int64_t pp = config.pp;
  const auto per_round = static_cast<std::int64_t>(most_actions(config.pp, config.vpp, pp));
  const std::int64_t rounds = std::max(fewest_rounds, kCheapActions / per_round);
  // A second simulation, of what comes before the rhythm, costs one round less.
  if (num_microbatches <= (2 * rounds - 1) * pp) {
    return {.num_microbatches = num_microbatches};
  }
  return {.num_microbatches = rounds * pp + num_microbatches % pp, .rhythm = pp};
}

/// Makes messages between ranks take no time.
void leave_out_messages(StepTimes& times) {
  times.within_node = times.across_nodes = {};
  times.hops.clear();
}

/// Makes reductions, gathers, the tied embedding, the norm and the optimizer take no time, and not
/// slow compute down.
void leave_out_ends(StepTimes& times) {
  std::ranges::fill(times.reductions, TransferTime{});
  std::ranges::fill(times.gathers, TransferTime{});
  times.tied = {};
  times.norm = Seconds(0.0);
  std::ranges::fill(times.optimizer, Seconds(0.0));
  times.overlap_slowdown = 0.0;
}

}  // namespace

StepTimes passes_alone(StepTimes times) {
  leave_out_ends(times);
  leave_out_messages(times);
  times.shares_links = false;
  return times;
}

bool is_simulated(const ParallelConfig& config) {
  return traits_of(config.schedule).is_synchronous;
}

namespace {

StepActions actions_with(const PlannedJob& job, const StepBuckets& buckets) {
  const auto is_cut = [](const std::vector<int>& counts) {
    return std::ranges::any_of(counts, [](int count) { return count > 0; });
  };
  const bool is_reduced = is_cut(buckets.reductions);
  const bool is_gathered = is_cut(buckets.gathers);
  return {.gradient_buckets = is_reduced    ? buckets.reductions
                              : is_gathered ? buckets.gathers
                                            : std::vector<int>{},
          .reduces_gradients = is_reduced,
          .overlaps_reductions = overlaps_reduction(job.stack(), job.config().pp),
          .gathers_parameters = is_gathered,
          .ties_embeddings = !job.model().untied_embeddings};
}

}  // namespace

StepActions step_actions(const PlannedJob& job) {
  return actions_with(job, step_buckets(job));
}

GivenStep given_step(const PlannedJob& job) {
  return {.times = step_times(job), .actions = step_actions(job), .shape = schedule_shape(job)};
}

GivenStep given_step(const PlannedJob& job, const StageLoads& loads) {
  return {.times = step_times(job, loads),
          .actions = actions_with(job, step_buckets(job, loads.held)),
          .shape = schedule_sizes(job.config(), job.microbatches())};
}

bool is_contended(const StepTimes& times, const StepActions& actions) {
  const bool has_data = actions.reduces_gradients || actions.gathers_parameters;
  return (has_data && times.data != DataMode::kBlocking) ||
         times.messages == MessageMode::kOverlapped;
}

Seconds step_of(const StackSpec& stack, const SimulatedTimes& times) {
  return stack.optimizer_post_validation ? times.longest_span() : times.makespan();
}

double simulated_actions(const ParallelConfig& config, std::int64_t num_microbatches) {
  const SimulatedPart part = simulated_part(config, num_microbatches, kFewestContendedRounds);
  return most_actions(config.pp, config.vpp, part.num_microbatches);
}

/// The step of one configuration, to be simulated with all of its times or with some.
class StepSimulations::Step {
 public:
  Step(const PlannedJob& job, GivenStep step, StepSimulations& simulations)
      : stack_(job.stack()),
        config_(job.config()),
        num_microbatches_(job.microbatches()),
        times_(std::move(step.times)),
        actions_(std::move(step.actions)),
        schedule_(traits_of(job.config().schedule)),
        shape_(std::move(step.shape)),
        simulations_(simulations) {
    assert(is_simulated(job.config()));
    times_.shares_links = is_contended(times_, actions_);
    takes_turns_ = !times_.shares_links &&
                   traits_of(job.config().schedule).placement == StagePlacement::kLooped;
    part_ = simulated_part(job.config(), num_microbatches_,
                           takes_turns_ ? kFewestRounds : kFewestContendedRounds);
  }

  /// Returns all times of the step.
  [[nodiscard]] const StepTimes& times() const { return times_; }

  /// Returns the step's time with `times` in place of its own.
  [[nodiscard]] Seconds simulate(const StepTimes& times) {
    std::vector<StageDurations> durations;
    if (takes_turns_) {
      durations = durations_with_sends(times, config_.pp);
      const auto passes = config_.schedule == ScheduleKind::kOneFOneB
                              ? passes_paced_by_last_rank(durations, num_microbatches_)
                              : std::nullopt;
      if (passes) {
        return step_of(stack_, with_ends(*passes, times, actions_));
      }
      if (durations != durations_of_passes_) {
        durations_of_passes_ = durations;
        passes_.clear();
      }
    }
    const SimulatedTimes simulated = run(part_.num_microbatches, times);
    const Seconds whole = step_of(stack_, simulated);
    if (part_.rhythm == 0) {
      return whole;
    }
    const Seconds before = step_of(stack_, run(part_.num_microbatches - part_.rhythm, times));
    // What the repeated microbatches hide of the reductions may make them look shorter than their
    // work.
    const Seconds work =
        static_cast<double>(part_.rhythm) *
        (takes_turns_ ? simulated.most_work() / static_cast<double>(part_.num_microbatches)
                      : most_work());
    return whole + num_repeated() * std::max(whole - before, work);
  }

  /// Whether transfers share links with others, or slow compute down.
  [[nodiscard]] bool shares_links() const { return times_.shares_links; }

  /// Returns a lower bound of the step's time where it is contended.
  [[nodiscard]] Seconds least() {
    if (stack_.optimizer_post_validation) {
      return Seconds(0.0);  // what puts off a rank's first action may shorten its span
    }
    StepTimes alone = times_;
    alone.shares_links = false;
    alone.overlap_slowdown = 0.0;
    const Seconds whole = step_of(stack_, run(part_.num_microbatches, alone));
    return kBelowContended *
           (part_.rhythm == 0
                ? whole
                : whole + num_repeated() * (static_cast<double>(part_.rhythm) * most_work()));
  }

 private:
  /// Returns how many times the step repeats its rhythm beyond what is simulated.
  [[nodiscard]] double num_repeated() const {
    return static_cast<double>(num_microbatches_ - part_.num_microbatches) /
           static_cast<double>(part_.rhythm);
  }

  /// Returns the time of a microbatch's passes on the busiest rank, with nothing beside them that
  /// slows them down.
  [[nodiscard]] Seconds most_work() const {
    Seconds most;
    for (int rank = 0; rank < config_.pp; ++rank) {
      Seconds work;
      for_each_virtual_stage(config_, rank, [&](int stage) {
        const StageDurations& of = times_.stages[static_cast<std::size_t>(stage)];
        work += of.forward + of.backward;
      });
      most = std::max(most, work);
    }
    return most / num_copies(config_);
  }

  /// Simulates the step of `microbatches` microbatches.
  [[nodiscard]] SimulatedTimes run(std::int64_t microbatches, const StepTimes& times) {
    if (takes_turns_) {
      return with_ends(passes_of(microbatches), times, actions_);
    }
    return simulate_step_times(*schedule_of(microbatches, &actions_), times);
  }

  /// Returns the passes of `microbatches` microbatches that last durations_of_passes_, simulated
  /// once.
  [[nodiscard]] const SimulatedTimes& passes_of(std::int64_t microbatches) {
    const auto found = passes_.find(microbatches);
    return found != passes_.end()
               ? found->second
               : passes_
                     .emplace(microbatches, ptdp::simulate(*schedule_of(microbatches, nullptr),
                                                           durations_of_passes_))
                     .first->second;
  }

  [[nodiscard]] std::shared_ptr<const Schedule> schedule_of(std::int64_t microbatches,
                                                            const StepActions* actions) {
    shape_.num_microbatches = static_cast<int>(microbatches);
    return simulations_.find_schedule(schedule_, shape_, actions);
  }

  const StackSpec& stack_;
  const ParallelConfig& config_;
  std::int64_t num_microbatches_;
  StepTimes times_;
  StepActions actions_;
  const ScheduleTraits& schedule_;
  ScheduleShape shape_;
  StepSimulations& simulations_;
  bool takes_turns_ = false;  ///< Whether all communication takes turns with compute.
  SimulatedPart part_;
  /// Durations of the passes that are kept, which ends of the step leave as they are.
  std::vector<StageDurations> durations_of_passes_;
  std::map<std::int64_t, SimulatedTimes> passes_;  ///< By microbatches; used where it takes turns.
};

Seconds StepSimulations::simulate(const PlannedJob& job, GivenStep given) {
  Step step(job, std::move(given), *this);
  return step.simulate(step.times());
}

StepBound StepSimulations::bound(const PlannedJob& job) {
  Step step(job, given_step(job), *this);
  return step.shares_links() ? StepBound{.time = step.least()}
                             : StepBound{.time = step.simulate(step.times()), .is_exact = true};
}

StepParts StepSimulations::parts(const PlannedJob& job, GivenStep given) {
  Step step(job, std::move(given), *this);
  const Seconds whole = step.simulate(step.times());
  StepTimes times = step.times();
  leave_out_ends(times);
  const Seconds with_messages = std::min(step.simulate(times), whole);
  return {.passes = std::min(step.simulate(passes_alone(times)), with_messages),
          .with_messages = with_messages,
          .whole = whole};
}

std::shared_ptr<const Schedule> StepSimulations::find_schedule(const ScheduleTraits& traits,
                                                               const ScheduleShape& shape,
                                                               const StepActions* actions) {
  const int flags =
      actions == nullptr
          ? -1
          : (actions->reduces_gradients ? 1 : 0) + (actions->overlaps_reductions ? 2 : 0) +
                (actions->gathers_parameters ? 4 : 0) + (actions->ties_embeddings ? 8 : 0);
  const Key key(traits.name, shape.pp, shape.vpp, shape.num_microbatches, shape.ticks,
                shape.message_ticks, shape.memory_limit, shape.shortens_spans,
                actions == nullptr ? std::vector<int>{} : actions->gradient_buckets, flags);
  const auto found = schedules_.find(key);
  if (found != schedules_.end()) {
    return found->second;
  }
  Schedule compute = traits.generate(shape);
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
