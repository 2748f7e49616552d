// Bounds the step of each rank by its work, its waits and what it holds.
#include "cost_model/iteration/least_step.h"

#include <algorithm>
#include <limits>

#include "cost_model/iteration/schedule_shape.h"
#include "cost_model/iteration/simulated_step.h"
#include "cost_model/iteration/step_builder.h"
#include "cost_model/iteration/virtual_stage_durations.h"
#include "cost_model/schedule/generators/generators.h"

namespace ptdp {
namespace {

constexpr double kBelowRounding = 1.0 - 1e-9;

/// The virtual stages of a pipeline rank.
struct HeldStages {
  std::vector<int> stages = {};  ///< Virtual stages that the rank holds.
  double share = 1.0;            ///< Share of the microbatches that come to each of them.
};

HeldStages stages_of(const ParallelConfig& config, int rank) {
  const StagePlacement placement = traits_of(config.schedule).placement;
  HeldStages held{.share = placement == StagePlacement::kBidirectional ? 0.5 : 1.0};
  for_each_virtual_stage(placement, config.pp, config.vpp, rank,
                         [&](int stage) { held.stages.push_back(stage); });
  return held;
}

/// A job's pipeline, and the way of a microbatch through its virtual stages, which all bounds
/// share.
class Pipeline {
 public:
  explicit Pipeline(const PlannedJob& job)
      : config_(job.config()),
        times_(step_times(job)),
        actions_(step_actions(job)),
        shape_(schedule_sizes(job.config(), job.microbatches())),
        schedule_(traits_of(job.config().schedule)),
        waits_for_all_(!job.stack().optimizer_post_validation),
        ends_of_first_(ends_of(stages_of(job.config(), 0))) {
    rank_of_.resize(static_cast<std::size_t>(num_stages()));
    for (int rank = 0; rank < job.config().pp; ++rank) {
      for (const int stage : stages_of(job.config(), rank).stages) {
        rank_of_[static_cast<std::size_t>(stage)] = rank;
      }
    }
    const bool is_split = traits_of(job.config().schedule).splits_backward;
    for (int stage = 0; stage < num_stages(); ++stage) {
      const StageDurations& of = durations(stage);
      const Seconds hop = message_behind(stage);
      forward_.push_back(forward_.back() + of.forward + hop);
      backward_.push_back(backward_.back() + (is_split ? of.input_gradient : of.backward) + hop);
    }
  }

  /// Returns the bound of the step: that of the slowest rank, and of its end.
  [[nodiscard]] Seconds least_time() const {
    Seconds longest;
    Seconds slowest_optimizer;
    for (int rank = 0; rank < config_.pp; ++rank) {
      const auto optimizer = times_.optimizer[static_cast<std::size_t>(rank)];
      slowest_optimizer = std::max(slowest_optimizer, optimizer);
      longest = std::max(longest, least_time(rank) + (waits_for_all_ ? Seconds(0.0) : optimizer));
    }
    return longest + times_.norm + (waits_for_all_ ? slowest_optimizer : Seconds(0.0));
  }

 private:
  [[nodiscard]] int num_stages() const { return config_.pp * config_.vpp; }
  [[nodiscard]] const StageDurations& durations(int stage) const {
    return times_.stages[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] int rank_of(int stage) const { return rank_of_[static_cast<std::size_t>(stage)]; }

  /// Returns the time of a message from a virtual stage to the next one; 0 where both are on one
  /// rank, or there is none.
  [[nodiscard]] Seconds message_behind(int stage) const {
    if (stage + 1 >= num_stages() || rank_of(stage) == rank_of(stage + 1)) {
      return Seconds(0.0);
    }
    return message_between(times_, rank_of(stage), rank_of(stage + 1)).total();
  }

  /// Returns what sending a virtual stage's activations takes of the rank's time, per microbatch.
  [[nodiscard]] Seconds sending_forward(int stage) const {
    return times_.messages == MessageMode::kBlocking ? message_behind(stage) : Seconds(0.0);
  }
  /// Returns what sending a virtual stage's gradients takes of the rank's time, per microbatch.
  [[nodiscard]] Seconds sending_backward(int stage) const {
    return times_.messages == MessageMode::kBlocking && stage > 0 ? message_behind(stage - 1)
                                                                  : Seconds(0.0);
  }

  /// Time that a rank's buckets take.
  struct Collectives {
    Seconds all;   ///< Time of all buckets.
    Seconds last;  ///< Least time of the bucket that goes last.
  };
  [[nodiscard]] Collectives collectives_of(const HeldStages& held,
                                           const std::vector<TransferTime>& buckets) const {
    Collectives sum{.last = Seconds(std::numeric_limits<double>::infinity())};
    for (const int held_stage : held.stages) {
      const auto stage = static_cast<std::size_t>(held_stage);
      const int count = actions_.gradient_buckets[stage];
      const Seconds bucket = buckets[stage].total();
      sum.all += count * bucket;
      // Where the virtual stage that is done last has nothing to reduce, the last bucket runs
      // beside its pass.
      sum.last = std::min(sum.last, count > 0 ? bucket : Seconds(0.0));
    }
    return sum;
  }

  /// Gathers and reductions of one rank, by where they fall beside its passes.
  struct Ends {
    Seconds gathers;       ///< Gathers before any of its passes.
    Seconds reductions;    ///< Reductions behind all of its passes.
    Seconds beside;        ///< Gathers and reductions beside its passes, or while it waits.
    Seconds all_gathers;   ///< Gathers beside its passes or before them.
    Seconds all_but_last;  ///< Reductions beside its passes.
  };
  [[nodiscard]] Ends ends_of(const HeldStages& held) const {
    const Collectives gathers =
        actions_.gathers_parameters ? collectives_of(held, times_.gathers) : Collectives{};
    const Collectives reductions =
        actions_.reduces_gradients ? collectives_of(held, times_.reductions) : Collectives{};
    Ends ends{.gathers = times_.data == DataMode::kOverlapped ? Seconds(0.0) : gathers.all,
              .reductions = reductions.all,
              .all_gathers = gathers.all};
    if (times_.data != DataMode::kBlocking) {
      // The last bucket has nothing left to hide behind.
      ends.reductions = reductions.last;
      ends.all_but_last = reductions.all - reductions.last;
      ends.beside = ends.all_but_last + gathers.all - ends.gathers;
    }
    return ends;
  }

  /// Returns the bound for one rank, without the norm and the optimizer.
  [[nodiscard]] Seconds least_time(int rank) const {
    const HeldStages held = stages_of(config_, rank);
    const double microbatches = held.share * shape_.num_microbatches;
    Seconds work;
    Seconds stays;
    Seconds longest_forward;
    Seconds longest_backward;
    Seconds first_action = forward_.back();
    Seconds first_gradient = forward_.back() + backward_.back();
    Seconds return_trip = first_gradient;
    Seconds drain = backward_.back();
    for (const int held_stage : held.stages) {
      const auto stage = static_cast<std::size_t>(held_stage);
      const StageDurations& of = durations(held_stage);
      const Seconds forward = of.forward + sending_forward(held_stage);
      const Seconds backward =
          of.input_gradient + of.weight_gradient + sending_backward(held_stage);
      const Seconds after_forward =
          forward_.back() - forward_[stage] - of.forward + backward_.back() - backward_[stage + 1] +
          message_behind(held_stage) + of.input_gradient + of.weight_gradient;
      work += microbatches * (forward + backward);
      stays += microbatches * (of.forward + after_forward);
      longest_forward = std::max(longest_forward, forward);
      longest_backward = std::max(longest_backward, backward);
      first_action = std::min(first_action, forward_[stage]);
      first_gradient =
          std::min(first_gradient, forward_.back() + backward_.back() - backward_[stage + 1] +
                                       message_behind(held_stage));
      // Sending what a pass made counts as the rank's work already.
      return_trip = std::min(return_trip, after_forward - sending_forward(held_stage));
      drain = std::min(drain, backward_[stage] - sending_backward(held_stage));
    }
    const int kept = schedule_.peak_activations(shape_, rank);
    const Ends ends = ends_of(held);
    const Seconds begin = waits_for_all_
                              ? std::max(ends_of_first_.gathers + first_action, ends.gathers)
                              : ends.gathers;
    const Seconds before =
        std::max(Seconds(0.0), first_gradient - kept * longest_forward - first_action);
    const Seconds after = std::max(return_trip - kept * longest_backward, Seconds(0.0));
    const bool goes_on = microbatches * static_cast<double>(held.stages.size()) > kept;
    const Seconds passes =
        begin + std::max(work + (goes_on ? before + after : std::max(before, after)), stays / kept);
    if (!waits_for_all_) {
      return passes + ends.reductions;
    }
    // What runs beside compute slows it down, as far as there is no wait to run in.
    const Seconds slowed = std::max(ends.beside - (passes - work), Seconds(0.0));
    Seconds own = passes + times_.overlap_slowdown * slowed + ends.reductions;
    if (goes_on && times_.data != DataMode::kBlocking && num_copies(config_) == 1) {
      // Before its last gather has ended a rank runs no more forward passes than it holds
      // activations. Once its first reduction may begin it runs no more backward passes than that.
      // All else lies between.
      const Seconds gathered = kept * longest_forward;
      const Seconds reduced = kept * longest_backward;
      const Seconds all_reductions = ends.reductions + ends.all_but_last;
      own = std::max({own, ends.all_gathers + work - gathered + after + ends.reductions,
                      begin + before + work - reduced + all_reductions,
                      ends.all_gathers + work - gathered - reduced + all_reductions});
    }
    if (traits_of(config_.schedule).splits_backward) {
      // Weight gradients of the ranks between the first and the last may come after all that these
      // two do.
      const bool is_end = rank == rank_of(0) || rank == rank_of(num_stages() - 1);
      return own + (is_end ? times_.tied.total() : Seconds(0.0));
    }
    const Seconds of_first =
        times_.data == DataMode::kBlocking ? ends_of_first_.reductions : Seconds(0.0);
    return std::max(own, passes + drain + of_first + times_.tied.total());
  }

  const ParallelConfig& config_;
  /// Pipeline rank by virtual stage; one of the two in a bidirectional pipeline.
  std::vector<int> rank_of_;
  StepTimes times_;
  StepActions actions_;
  ScheduleShape shape_;
  const ScheduleTraits& schedule_;
  bool waits_for_all_;
  Ends ends_of_first_;  ///< Gathers and reductions of the first rank.
  /// Time of the way forward up to the beginning of each virtual stage, and to the end.
  std::vector<Seconds> forward_ = {Seconds(0.0)};
  /// Time of the way back to the first virtual stage, from each one's beginning and from the end.
  std::vector<Seconds> backward_ = {Seconds(0.0)};
};

}  // namespace

Seconds least_step_time(const PlannedJob& job) {
  return kBelowRounding * Pipeline(job).least_time();
}

LeastPasses::LeastPasses(const PlannedJob& job) {
  const std::vector<StageDurations> durations = virtual_stage_durations(job);
  const bool waits_for_all = !job.stack().optimizer_post_validation;
  const bool is_split = traits_of(job.config().schedule).splits_backward;
  std::vector<Seconds> path = {Seconds(0.0)};
  for (const StageDurations& of : durations) {
    const Seconds way = of.forward + (is_split ? Seconds(0.0) : of.backward);
    path.push_back(path.back() + (waits_for_all ? way : Seconds(0.0)));
  }
  for (int rank = job.config().pp - 1; rank >= 0; --rank) {
    const HeldStages held = stages_of(job.config(), rank);
    Rank of;
    of.path = path.back();
    for (const int stage : held.stages) {
      const auto index = static_cast<std::size_t>(stage);
      of.work += held.share * (durations[index].forward + durations[index].input_gradient +
                               durations[index].weight_gradient);
      of.path = std::min(of.path, path[index]);
    }
    const auto exceeds = [&](const Rank& other) {
      return other.work >= of.work && other.path >= of.path;
    };
    if (std::ranges::none_of(ranks_, exceeds)) {
      ranks_.push_back(of);
    }
  }
}

Seconds LeastPasses::time(double num_microbatches) const {
  Seconds longest;
  for (const Rank& rank : ranks_) {
    longest = std::max(longest, num_microbatches * rank.work + rank.path);
  }
  return longest;
}

}  // namespace ptdp
