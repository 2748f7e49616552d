// Which runs correct which prediction: published ones a plan, other rows a row.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/measured/calibration.h"
#include "cost_model/measured/levels.h"
#include "cost_model/measured/measured_run.h"
#include "cost_model/text/named_values.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/accuracy/levels_file.h"
#include "planner/accuracy/profile_cache.h"
#include "planner/accuracy/published_runs.h"

namespace ptdp {

/// How the predictions of a set of rows are calibrated.
enum class CalibrationKind {
  kNone,              ///< No calibration: the cost model as it is.
  kShipped,           ///< Calibrated by published runs of other jobs, as ptdp-plan would.
  kLeaveOneOut,       ///< Calibrated by the other rows.
  kLeaveOneGroupOut,  ///< Calibrated by the rows of other groups.
  kScale              ///< Calibrated by all rows, itself included: in-sample.
};
/// Names of the kinds of calibration, as flags and documents have them.
inline constexpr std::array kCalibrationKindNames = {
    NamedValue<CalibrationKind>{CalibrationKind::kNone, "none"},
    NamedValue<CalibrationKind>{CalibrationKind::kShipped, "shipped"},
    NamedValue<CalibrationKind>{CalibrationKind::kLeaveOneOut, "leave-one-out"},
    NamedValue<CalibrationKind>{CalibrationKind::kLeaveOneGroupOut, "leave-one-group-out"},
    NamedValue<CalibrationKind>{CalibrationKind::kScale, "scale"}};

/// Returns a costed run as one that a factor can rest on.
[[nodiscard]] CalibrationRun calibration_run(const CostedRun& run);

/// The runs that say most of one another: those of one cluster, stack and kind of model, dense or
/// with experts.
struct CalibrationScope {
  std::string cluster;  ///< Name of the cluster.
  std::string stack;    ///< Name of the stack.
  bool has_experts = false;

  friend bool operator==(const CalibrationScope&, const CalibrationScope&) = default;
  friend bool operator<(const CalibrationScope& a, const CalibrationScope& b) {
    return std::tie(a.cluster, a.stack, a.has_experts) <
           std::tie(b.cluster, b.stack, b.has_experts);
  }
};
/// Returns the scope of a run.
[[nodiscard]] CalibrationScope scope_of(const CostedRun& run);
/// Returns the scope of a scenario.
[[nodiscard]] CalibrationScope scope_of(const Scenario& scenario);
/// Returns a scope for people: "dgx-h100 + nemo-2024", for models with experts
/// "dgx-h100 + nemo-2024, experts".
[[nodiscard]] std::string text_of(const CalibrationScope& scope);
/// Returns the indices of runs by scope.
[[nodiscard]] std::map<CalibrationScope, std::vector<std::size_t>> by_scope(
    const std::vector<CostedRun>& runs);

/// Returns runs by the levels that they belong to.
[[nodiscard]] RunsByScope runs_by_path(const std::vector<CostedRun>& runs);
/// Returns the levels that a run belongs to.
[[nodiscard]] LevelPath path_of(const CostedRun& run, ProfileCache& profiles);
/// Returns what runs say of the mean of each scope.
[[nodiscard]] std::vector<LevelScope> scopes_of(const LevelModel& model, const RunsByScope& runs);

/// Returns the published runs of the scenario's kind of model on its cluster and stack, whatever
/// these are called.
[[nodiscard]] std::vector<MeasuredRun> published_runs_on(const PublishedRuns& published,
                                                         const Scenario& scenario,
                                                         ProfileCache& profiles);

/// Variance of ln(measured/predicted) that a GPU adds whose constants are another one's: 0.177²,
/// from published runs predicted with the constants of other measured GPUs (cost_model/LIMITS.md).
inline constexpr double kAssumedGpuVariance = 0.031;

/// Returns what the shipped `levels` of a quantity say of a scenario, without the scopes `counted`,
/// whose runs count one by one; nullopt for this project's runtime, which no level knows. If
/// `is_own_cluster`, its cluster is another one than any of them, whatever its profile.
[[nodiscard]] std::optional<LevelPrior> shipped_prior(const LevelSet& levels,
                                                      const Scenario& scenario,
                                                      const std::set<CalibrationScope>& counted,
                                                      bool is_own_cluster);

/// Calibrates jobs by the runs of one scope and by what other scopes say of it, each job once.
class JobFits {
 public:
  /// Which runs of the scope speak for a job.
  enum class Runs {
    kAll,
    kOfOtherJobs  ///< Those of other jobs: a prediction then stands beside a measurement of its
                  ///< own.
  };
  /// Takes the runs; without `prior` nothing is calibrated.
  JobFits(const std::optional<LevelPrior>& prior, std::vector<CalibrationRun> runs,
          Runs which = Runs::kAll, const LevelModel& model = shipped_levels().time.model);

  /// Returns what is known of a job.
  [[nodiscard]] const CalibrationFit& fit(const std::string& job);
  /// Returns the calibration of each of the runs, in order, by all others.
  [[nodiscard]] std::vector<Calibration> leave_one_out() const;

 private:
  LevelModel model_;
  std::optional<LevelPrior> prior_;
  std::vector<CalibrationRun> runs_;
  Runs which_;
  std::map<std::string, CalibrationFit> fits_;  ///< By the names of jobs.
};

/// Calibrates by given rows alone, whatever is published.
class RowLevels {
 public:
  /// Takes the rows but those of `left_out`, a group; nullopt: all of them.
  RowLevels(const LevelModel& model, const std::vector<CostedRun>& rows,
            const std::optional<std::string>& left_out);

  /// Returns what the rows say of the predictions for the job of a run.
  [[nodiscard]] const CalibrationFit& fit(const CostedRun& run);
  /// Returns what the rows say of a job of no row in the scope of a run.
  [[nodiscard]] const CalibrationFit& fit_other_job(const CostedRun& run);
  /// Returns the calibration of a run by the rows.
  [[nodiscard]] Calibration calibration(const CostedRun& run);
  /// Returns the calibration of each row, in order, by all others.
  [[nodiscard]] std::vector<Calibration> leave_one_out();

 private:
  /// Returns the fits of the scope of a run, which may have no row.
  JobFits& fits_of(const CostedRun& run);

  LevelModel model_;
  std::vector<LevelScope> scopes_;
  std::map<LevelPath, JobFits> by_path_;
  std::map<LevelPath, std::vector<std::size_t>> places_;  ///< Places of a scope's rows.
  std::size_t num_rows_ = 0;
  ProfileCache profiles_;
};

/// Calibrates runs as ptdp-plan would: by published runs of other jobs, and by the shipped levels.
class PublishedLevels {
 public:
  /// Returns the calibration of a run. Throws Error when the published runs are missing.
  [[nodiscard]] Calibration calibration(const CostedRun& run);

 private:
  std::map<CalibrationScope, JobFits> scopes_;
  ProfileCache profiles_;
};

/// Returns the calibration of each run, in order.
[[nodiscard]] std::vector<Calibration> calibrations_of(const std::vector<CostedRun>& runs,
                                                       CalibrationKind kind);

/// Fits the calibration of ptdp-plan: published runs on the scenario's cluster and stack, without
/// those of its job on `gpus` GPUs, and the shipped levels. This project's own runtime is in
/// neither: its predictions are not calibrated.
[[nodiscard]] CalibrationFit calibrate_by_published(const PublishedRuns& published,
                                                    const Scenario& scenario, std::int64_t gpus);

/// Fits a user's own runs of the scenario's cluster and stack, those of its job included, with what
/// the published scopes say of another cluster with this stack.
[[nodiscard]] CalibrationFit calibrate_by_own(const std::vector<CalibrationRun>& runs,
                                              const Scenario& scenario, std::int64_t gpus);
/// Calibrates each of a user's own runs by all of them (kScale) or by the others (kLeaveOneOut), in
/// the way of calibrate_by_own().
[[nodiscard]] std::vector<Calibration> own_calibrations(const std::vector<CalibrationRun>& runs,
                                                        const Scenario& scenario,
                                                        CalibrationKind kind);

}  // namespace ptdp
