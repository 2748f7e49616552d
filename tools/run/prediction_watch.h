// Whether a run takes as long as was predicted, told while it goes on.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/run_terms.h"
#include "tools/run/run_plan.h"

namespace ptdp {

/// Measured steps after which a prediction is judged, or all of a shorter run.
inline constexpr std::int64_t kJudgedSteps = 10;
/// Share of the measured time by which a prediction may be off.
inline constexpr double kToleratedError = 0.20;

/// Looks at the steps of the rank that tells of them. Says nothing of what is not predicted, and
/// corrects nothing. The report may ask from another thread than the one that observes.
class PredictionWatch {
 public:
  /// `run` must outlive it. `report_file`: what the warning calls the run's report.
  PredictionWatch(const PreparedRun& run, std::int64_t warm_up, std::string report_file);

  /// A warning, once, where the steps so far are enough and too far off: with the term that is off
  /// most and the command that refits. The step's record must be there.
  [[nodiscard]] std::optional<std::string> observe(const StepProgress& step);
  /// The same at the end of a run that was too short for it.
  [[nodiscard]] std::optional<std::string> finish();
  /// What belongs into the run's report: what was said here or, where another process was told of
  /// the steps, what the report itself says.
  [[nodiscard]] std::vector<std::string> warnings(const RunReport& report) const;

 private:
  /// With the mutex held.
  [[nodiscard]] std::optional<std::string> judge();

  const PreparedRun& run_;
  std::int64_t warm_up_ = 0;
  std::string report_file_;
  mutable std::mutex mutex_;  ///< Of what follows.
  std::vector<double> times_;
  std::vector<RunTerms> terms_;
  bool has_judged_ = false;
  std::optional<std::string> warning_;
};

}  // namespace ptdp
