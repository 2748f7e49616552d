// Warns during a run when it takes longer or shorter than predicted.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/run_terms.h"
#include "tools/run/run_plan.h"

namespace ptdp {

/// Measured steps after which a prediction is judged; a shorter run is judged after all its steps.
inline constexpr std::int64_t kJudgedSteps = 10;
/// Largest tolerated error of a prediction, as a share of the measured time.
inline constexpr double kToleratedError = 0.20;

/// Watches the steps of the rank that reports them (the one that knows the loss). Says nothing when
/// the run is not predicted, and corrects nothing. Thread-safe: the report may be made on another
/// thread than observe().
class PredictionWatch {
 public:
  /// `run` must outlive the watch. `report_file` is what the run's report is written to, or
  /// empty.
  PredictionWatch(const PreparedRun& run, std::int64_t warm_up, std::string report_file);

  /// Takes one step and returns a warning, once, when enough steps are too far from the prediction.
  /// The warning names the term with the largest error and the command that refits the profile.
  /// `step.record` must not be null.
  [[nodiscard]] std::optional<std::string> observe(const StepProgress& step);
  /// Judges a run that ended before kJudgedSteps, and returns a warning if it is too far from the
  /// prediction.
  [[nodiscard]] std::optional<std::string> finish();
  /// Returns the warnings for the run's report. These are what this watch said or, if another
  /// process observed the steps, what the report's own times give.
  [[nodiscard]] std::vector<std::string> warnings(const RunReport& report) const;

 private:
  /// Compares the observed steps with the prediction; requires the mutex to be held.
  [[nodiscard]] std::optional<std::string> judge();

  const PreparedRun& run_;
  std::int64_t warm_up_ = 0;
  std::string report_file_;
  /// Guards the members below: times_, terms_, has_judged_ and warning_.
  mutable std::mutex mutex_;
  std::vector<double> times_;
  std::vector<RunTerms> terms_;
  bool has_judged_ = false;
  std::optional<std::string> warning_;
};

}  // namespace ptdp
