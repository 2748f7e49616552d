// From what one rank of a plan took by itself to the iteration of the whole cluster.
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

/// The duration of passes of a kind: F, B, I or W. Null for what is none.
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

/// Compute of the ranks of a pipeline, without collectives.
struct ComputeTimes {
  std::vector<StageDurations> stages;  ///< By virtual stage, for a microbatch.
  std::vector<Seconds> norm;           ///< By rank: the squares of its gradients.
  std::vector<Seconds> optimizer;      ///< By rank.
};

/// What is predicted of a rank that has the machine to itself: without the cores that other ranks
/// keep busy (ClusterSpec::busy_cores). Calibrated as the plan is.
[[nodiscard]] ComputeTimes predicted_alone(const Plan& plan);

/// What a rank of the pipeline took by itself.
struct RehearsedTimes {
  int rank = 0;
  std::map<int, StageDurations> stages = {};  ///< Of its virtual stages; 0: no such action.
  Seconds norm;
  Seconds optimizer;
  double matmul_share = 0.0;     ///< Of its compute, where that is known,
  double attention_share = 0.0;  ///< likewise; the rest is memory_bound's.
};

struct Composition {
  std::vector<int> sources;  ///< By rank of the pipeline: the rehearsed one whose times it has.
  StepTimes times;           ///< What is simulated: composed.
  std::vector<StageDurations> collectives;  ///< What of times.stages is modelled.
  Seconds core_sharing;                     ///< Beyond the simulation; core_sharing.h.
  Seconds step;                             ///< Simulated, and the sharing of cores.
  int terms_stage = 0;                      ///< Of the ranks that compute longest:
  RunTerms terms;  ///< their time; add up to `step`, or more without bubble.
};

/// The iteration with the compute of ranks as they were rehearsed:
///
///   t(a) = measured(a')·P(a)/P₁(a') + collectives(a)
///
/// for a pass a of a virtual stage, or the optimizer of a rank; a' is the same of the rank that was
/// rehearsed, or of the nearest such rank: between the first and the last one that is between them,
/// if any was. P is what is predicted of it while all ranks compute, P₁ alone on the machine: that
/// scales by layers, by what the ends of the model have more, and by what cores lose that share
/// caches. Collectives, messages, reductions and the exchange of the norm are the plan's model. All
/// of the plan's microbatches are simulated (simulate_step), and ranks that share cores wait for
/// them pass by pass (time_on_shared_cores). Without `rehearsed`: as predicted.
[[nodiscard]] Composition compose(const Plan& plan, std::span<const RehearsedTimes> rehearsed);

/// Microbatches that a rehearsal of a rank runs: about twice as many as it holds at its worst, as
/// few as the plan's generator takes with which the rank holds as many as with all of them.
[[nodiscard]] int rehearsed_microbatches(const Plan& plan, int rank);

/// What of the plan's iteration is modelled where so many of its ranks are rehearsed, a line each.
[[nodiscard]] std::vector<std::string> modelled_of(const Plan& plan, std::size_t num_rehearsed);

/// Of the ranks between the first and the last the one with most layers that is nearest to the
/// middle; pp/2 where there is none between.
[[nodiscard]] int middle_rank(const Plan& plan);

}  // namespace ptdp
