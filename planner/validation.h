// Measured runs held against predictions, and the calibration that published ones give.
#pragma once

#include <string>
#include <vector>

#include "cost_model/calibration/calibration.h"
#include "cost_model/calibration/measured_run.h"
#include "cost_model/spec/scenario.h"

namespace ptdp {

/// A run with its prediction by the uncalibrated closed form.
struct CostedRun {
  MeasuredRun run;
  Seconds predicted;
};

struct CostedRuns {
  std::vector<CostedRun> costed;
  std::vector<SkippedRun> skipped;  ///< In the order of the rows.
};

/// The scenario of a run: its profiles, with what the row itself says of overlap and precision.
/// Throws Error for unknown profiles.
[[nodiscard]] Scenario scenario_of(const MeasuredRun& run);

/// Costs every run as configured. A run without a profile, or whose configuration the model cannot
/// cost, is skipped with the reason.
[[nodiscard]] CostedRuns cost_runs(const MeasuredRuns& runs);

/// Hardware TFLOP/s per GPU of a run whose iteration takes `time`.
[[nodiscard]] double tflops_per_gpu(const MeasuredRun& run, Seconds time);

/// The shipped published runs (profiles/published/*.csv).
[[nodiscard]] MeasuredRuns read_published_runs();

/// The published runs of the scenario's model, batch and number of GPUs, on any cluster and stack.
[[nodiscard]] std::vector<MeasuredRun> find_published_runs(const MeasuredRuns& published,
                                                           const Scenario& scenario,
                                                           std::int64_t gpus);

/// Whether a run's cluster and stack are those of the scenario, whatever they are called.
[[nodiscard]] bool is_run_on(const MeasuredRun& run, const Scenario& scenario);

/// The calibration of the scenario's (cluster, stack) by published runs, leaving out those of this
/// very model, batch and number of GPUs: a prediction that stands beside a measurement was not
/// fitted to it. Not calibrated for models that are less than half as large as any of those runs'
/// or more than twice as large.
[[nodiscard]] Calibration calibrate_by_published(const MeasuredRuns& published,
                                                 const Scenario& scenario, std::int64_t gpus);

/// The factor of one (cluster, stack), fitted to all runs given: in-sample by nature.
struct FittedFactor {
  std::string cluster;
  std::string stack;
  Calibration calibration;
};

/// Errors (predicted/measured − 1) of costed runs, in their order: as the closed form gives them;
/// with one factor per (cluster, stack) fitted to all of them (in-sample); and with the factor of
/// the other runs of that (cluster, stack) (leave-one-out).
struct RunErrors {
  std::vector<double> uncalibrated;
  std::vector<double> in_sample;
  std::vector<double> leave_one_out;
  std::vector<FittedFactor> factors;  ///< Behind in_sample.
};
[[nodiscard]] RunErrors errors_of(const std::vector<CostedRun>& runs);

}  // namespace ptdp
