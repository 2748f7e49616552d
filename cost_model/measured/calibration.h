// Corrects the next prediction by what runs show: those of its job, of its cluster and stack, and
// what other scopes say of these (levels.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cost_model/measured/interval.h"
#include "cost_model/measured/levels.h"
#include "cost_model/measured/run_point.h"
#include "cost_model/text/described.h"
#include "cost_model/units.h"

namespace ptdp {

/// A run whose iteration time was measured and predicted.
struct CalibrationRun {
  Seconds measured;
  Seconds predicted;
  CalibrationPoint point = {};
  std::string job;  ///< Name of its job (job_name()).
};

/// The runs that lie behind a calibrated prediction, as seen from it.
struct Support {
  int num_runs = 0;      ///< Runs of its cluster, stack and kind of model.
  int stack_runs = 0;    ///< Runs of its stack, these included.
  int program_runs = 0;  ///< Runs of its kind of program, those of the stack included.
  int all_runs = 0;      ///< All runs; 0: not calibrated.
  /// Distance to the third nearest of the num_runs, or to the nearest of fewer (run_point.h).
  double distance = 0.0;

  friend bool operator==(const Support&, const Support&) = default;
};
/// Returns the runs behind what a scope's `runs` and other scopes say.
[[nodiscard]] Support support_of(const LevelPrior& prior, int runs);
/// Returns what a prediction rests on: "64 runs of this cluster and stack, 1745 of its kind of
/// program". There must be runs.
[[nodiscard]] std::string to_text(const Support& support);
/// Reads or writes the numbers of runs, in keys that begin with calibration_; `fields` is an
/// ObjectReader or an ObjectWriter.
template <class Fields>
void describe_support(Fields& fields, Described<Fields, Support>& support);

/// The factor by which a prediction is multiplied, and how far the product can be off.
struct Calibration {
  Support support;      ///< The runs behind the factor.
  double factor = 1.0;  ///< Factor on the predicted time; 1 without runs.
  /// 90 % interval around the product of prediction and factor.
  RelativeInterval interval = kUncalibratedInterval;
  /// Variance of ln(measured/predicted) among layouts of the job.
  double layout_variance = 0.0;
  /// What of the prediction lies outside of all runs behind it, one line each.
  std::vector<std::string> outside_runs = {};

  /// Returns whether the factor rests on runs.
  [[nodiscard]] bool is_calibrated() const { return support.all_runs > 0; }
};

/// Standard deviation that a distance of 1 from the runs of a scope adds, in logarithms: 1 % of the
/// half-width. It is set, not fitted: runs of one scope lie too close together to show it.
inline constexpr double kDeviationPerDistance = 0.006;

/// What runs say of the predictions for one job.
struct CalibrationFit {
  double factor = 1.0;    ///< exp of the expected ln(measured/predicted).
  double variance = 0.0;  ///< Variance of that logarithm for the next run, beside the others.
  double degrees = 0.0;   ///< Degrees of freedom behind the variance.
  /// Part of the variance that layouts of one job do not share: noise·w².
  double layout_variance = 0.0;
  Support support;  ///< The runs behind the factor; the distance is left out.
  std::vector<CalibrationPoint> points = {};  ///< Points of the runs of the scope.

  [[nodiscard]] bool is_calibrated() const { return support.all_runs > 0; }
  /// Returns the calibration of a prediction at `point`, whose interval widens with the distance to
  /// the runs:
  ///
  ///   deviation² = variance + (kDeviationPerDistance·distance)²
  [[nodiscard]] Calibration at(const CalibrationPoint& point) const;
};

/// Share of a predicted difference that counts, for pairs of layouts scatter more than runs of a
/// scope. It is the most likely share for 11,074 pairs of published runs, 9,512 of one group.
inline constexpr double kOrderSharpness = 0.865;

/// Computes how likely the first of two layouts of one job is faster, by their predicted times:
///
///   Φ(kOrderSharpness·ln(second/first) / √(2·layout_variance))
///
/// Everything else that is unknown of the job moves both alike. There must be runs behind the
/// variance.
[[nodiscard]] double probability_of_order(Seconds first, Seconds second, double layout_variance);

/// Computes what runs of a scope, and other scopes (`prior`), say of the predictions for a job:
///
///   scope: prior × its runs;   job: N(scope, job·w²) × its own runs;   next run: job + noise·w²
[[nodiscard]] CalibrationFit fit_calibration(const LevelModel& model, const LevelPrior& prior,
                                             std::span<const CalibrationRun> runs,
                                             const std::string& job);

/// Returns for each run, in order, its calibration by all other runs of the scope and by `prior`.
[[nodiscard]] std::vector<Calibration> leave_one_out(const LevelModel& model,
                                                     const LevelPrior& prior,
                                                     std::span<const CalibrationRun> runs);

/// Returns a run as the levels see it.
[[nodiscard]] LevelRun level_run(const CalibrationRun& run);
/// Returns runs as the levels see them.
[[nodiscard]] std::vector<LevelRun> level_runs(std::span<const CalibrationRun> runs);

/// A summary of relative errors, predicted/measured − 1: how large they are, and to which side.
struct ErrorSummary {
  int count = 0;               ///< Number of errors summarized.
  double mean_absolute = 0.0;  ///< Mean absolute error (MAPE) as a fraction.
  double median_absolute = 0.0;
  double p90_absolute = 0.0;  ///< 90th percentile of absolute errors, interpolated.
  double max_absolute = 0.0;
  double bias = 0.0;  ///< Mean signed error.
};
/// Summarizes relative errors; all numbers are 0 if there are none.
[[nodiscard]] ErrorSummary summarized(std::span<const double> errors);

}  // namespace ptdp
