// The short runs that plans allow: of a plan itself, and of a smaller job alike within a node.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planner/accuracy/calibration_file.h"
#include "planner/pilot/pilot_belief.h"
#include "planner/plan/plan.h"

namespace ptdp {

/// Iterations of a short run; the first five warm up.
inline constexpr int kShortRunIterations = 15;
/// What starting a framework takes, until the first iteration [s]. It is assumed.
inline constexpr double kStartSeconds = 240.0;

/// Returns what a short run of a plan costs: kStartSeconds and kShortRunIterations on all its GPUs
/// [GPU-hours].
[[nodiscard]] double gpu_hours_of(const Plan& plan);

/// Returns a plan with the degrees of `plan` within a node, fewer layers, stages, replicas and
/// microbatches, on whole nodes. nullopt: nothing smaller can run.
[[nodiscard]] std::optional<Plan> smaller_plan(const Plan& plan,
                                               const CalibrationSource& calibration);

/// A short run and the plan that it runs.
struct PossibleRun {
  ShortRun run;
  Plan plan;
};
/// Returns the short runs of all plans: each plan itself, and a smaller job where there is one.
[[nodiscard]] std::vector<PossibleRun> possible_runs(std::span<const Plan> plans,
                                                     const CalibrationSource& calibration);

/// Returns how sure the predictions of plans are, by what runs say of their job.
[[nodiscard]] PilotModel pilot_model(const CalibrationFit& fit);

}  // namespace ptdp
