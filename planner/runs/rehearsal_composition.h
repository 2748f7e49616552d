// Composes the iteration of the whole cluster from what ranks of a plan took by themselves.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/simulation/step_times.h"
#include "planner/plan/plan.h"
#include "planner/plan/run_terms.h"

namespace ptdp {

/// Returns the member with the duration of a kind of pass: F, B, I or W. Null for other actions.
[[nodiscard]] constexpr Seconds StageDurations::*duration_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return &StageDurations::forward;
    case ActionKind::kBackward:
      return &StageDurations::backward;
    case ActionKind::kInputGradient:
      return &StageDurations::input_gradient;
    case ActionKind::kWeightGradient:
      return &StageDurations::weight_gradient;
    default:
      return nullptr;
  }
}

/// The times of compute of a pipeline's ranks, without collectives.
struct ComputeTimes {
  std::vector<StageDurations> stages;  ///< Passes of a microbatch, by virtual stage.
  std::vector<Seconds> norm;           ///< Squaring the gradients for their norm, by pipeline rank.
  std::vector<Seconds> optimizer;      ///< The optimizer's step, by pipeline rank.
};

/// Predicts the compute of ranks that have the machine to themselves: without the cores that other
/// ranks keep busy (ClusterSpec::busy_cores), and on a card of mean speed (GpuSpec::card_spread).
/// The plan's calibration applies.
[[nodiscard]] ComputeTimes predicted_alone(const Plan& plan);

/// The times that a pipeline rank took by itself.
struct RehearsedTimes {
  int rank = 0;  ///< The pipeline rank, 0 … pp−1.
  /// Passes of a microbatch, by virtual stage of the rank; 0 for a pass that the schedule lacks.
  std::map<int, StageDurations> stages = {};
  Seconds norm;               ///< Squaring the gradients for their norm.
  Seconds optimizer;          ///< The optimizer's step.
  double matmul_share = 0.0;  ///< Share of products in its compute; 0 if unknown.
  /// Share of attention in its compute; 0 if unknown. What products and attention leave is
  /// memory-bound.
  double attention_share = 0.0;
};

/// The iteration of a whole cluster, composed from rehearsed ranks.
struct Composition {
  std::vector<int> sources;  ///< By pipeline rank, the rehearsed rank whose times it has.
  StepTimes times;           ///< The composed durations that are simulated.
  /// The modeled part of times.stages: collectives within passes, by virtual stage.
  std::vector<StageDurations> collectives;
  Seconds core_contention;  ///< Time beyond the simulation that ranks wait for cores they share.
  Seconds step;             ///< Time of the iteration: the simulated step plus core_contention.
  int terms_rank = 0;       ///< The pipeline rank that computes longest, 0 … pp−1.
  /// Terms of the pipeline rank `terms_rank`. They add up to `step`, or to more without a bubble.
  RunTerms terms;
};

/// Composes the iteration of the cluster with the compute of ranks as they were rehearsed. A pass
/// of a virtual stage, or the optimizer of a rank, called a below, takes
///
///   t(a) = measured(a')·P(a)/P₁(a') + collectives(a)
///
///   a'  the pass or optimizer that stands for a: of the same rank if it was rehearsed, else of the
///       nearest rehearsed rank. A rank between the first and the last takes one of those between,
///       if any was rehearsed.
///   P   what is predicted while all ranks compute
///   P₁  what is predicted of a rank alone on the machine
///
/// P(a)/P₁(a') scales by layers, by what the ends of the model have more, by what cores lose that
/// share caches, and by the slowest card. Collectives, messages, reductions and the exchange of the
/// norm are the plan's model. All of the plan's microbatches are simulated (simulate_step()), and
/// ranks that share cores wait for them pass by pass (time_on_shared_cores()). Without `rehearsed`
/// all is as predicted.
[[nodiscard]] Composition compose(const Plan& plan, std::span<const RehearsedTimes> rehearsed);

/// Returns the number of microbatches that a rehearsal of a pipeline rank runs: about twice as many
/// as the rank holds at its worst, and no more than all. From there on it is the fewest for which
/// the plan's schedule exists and the rank holds as many as with all.
[[nodiscard]] int rehearsed_microbatches(const Plan& plan, int rank);

/// Returns what of the plan's iteration is modeled when `num_rehearsed` of its ranks are rehearsed,
/// a line each.
[[nodiscard]] std::vector<std::string> modelled_of(const Plan& plan, std::size_t num_rehearsed);

/// Returns the pipeline rank to rehearse for those between the first and the last: the one with
/// most layers, and of equal ones the nearest to the middle. Returns pp/2 when there is none
/// between.
[[nodiscard]] int middle_rank(const Plan& plan);

}  // namespace ptdp
