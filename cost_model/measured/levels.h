// What runs show beyond the cost model, level by level: kind of program, stack, dense or experts,
// cluster, job. For time y is ln(measured/predicted), for memory it is measured − formulas [GiB].
//
//   y = mean + program + stack + experts + cluster + job + noise
//
// Each term but the mean is normal around 0 and nested in the one before it. A scope is a cluster
// with its stack and kind of model; its runs scatter by w² = (SS + v·w0²)/(n − 1 + v), with SS
// their n squared deviations from their mean. Job and noise are multiples of w².
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "cost_model/inputs/stack_spec.h"

namespace ptdp {

/// Names of a scope, from the widest level to the narrowest.
struct LevelPath {
  ProgramKind program = ProgramKind::kOther;
  std::string stack;
  bool has_experts = false;
  std::string cluster;

  friend bool operator==(const LevelPath&, const LevelPath&) = default;
  friend bool operator<(const LevelPath& a, const LevelPath& b) {
    return std::tie(a.program, a.stack, a.has_experts, a.cluster) <
           std::tie(b.program, b.stack, b.has_experts, b.cluster);
  }
};

/// Number of levels of a path: program, stack, experts, cluster.
inline constexpr int kNumLevels = 4;

/// The constants of the levels. `ptdp-calibrate --levels` fits them.
struct LevelModel {
  /// Variances of the terms program, stack, experts and cluster.
  std::array<double, kNumLevels> variances = {};
  double job = 0.0;            ///< Variance of jobs, in multiples of w².
  double noise = 1.0;          ///< Variance of runs of one job, in multiples of w².
  double scatter = 0.0;        ///< Standard deviation w0 that scopes with few runs tend to.
  double scatter_runs = 0.0;   ///< Number of runs v that w0 counts as.
  double usual_scatter = 0.0;  ///< Root mean square of w over all scopes.

  friend bool operator==(const LevelModel&, const LevelModel&) = default;
};

/// A normal belief about a quantity; precision 0: nothing is known.
struct Belief {
  double mean = 0.0;
  double precision = 0.0;  ///< 1/variance.

  /// Returns this belief with that of an independent observation.
  [[nodiscard]] Belief with(const Belief& other) const;
  /// Returns this belief without an observation that went into it.
  [[nodiscard]] Belief without(const Belief& other) const;
  /// Returns the belief about this quantity plus a normal term of mean 0.
  [[nodiscard]] Belief blurred(double variance) const;
  /// Returns the belief about this quantity times a factor above 0.
  [[nodiscard]] Belief scaled(double factor) const;
};

/// What a run says of its scope.
struct LevelRun {
  double value = 0.0;  ///< The run's y: ln(measured/predicted), or memory beyond formulas [GiB].
  std::string job;     ///< Name that the runs of one job share.

  friend bool operator==(const LevelRun&, const LevelRun&) = default;
};

/// The runs of a scope, summed up so that runs can be taken out again.
class ScopeSums {
 public:
  ScopeSums(const LevelModel& model, std::span<const LevelRun> runs);

  void add(const LevelRun& run) { count(run, 1); }
  /// Takes out a run that is among the runs.
  void remove(const LevelRun& run) { count(run, -1); }

  [[nodiscard]] int num_runs() const { return num_runs_; }
  /// Returns the squared scatter w²; without runs, that of the usual scope.
  [[nodiscard]] double scatter_squared() const;
  /// Returns what the runs say of the mean of their scope.
  [[nodiscard]] Belief scope_mean() const;
  /// Returns the belief about the mean of a job, with runs here or without, given what other scopes
  /// say of this one.
  [[nodiscard]] Belief job_mean(const Belief& prior, const std::string& job) const;

 private:
  struct Job {
    int num_runs = 0;
    double sum = 0.0;  ///< Sum of the runs' values.
  };
  void count(const LevelRun& run, int times);
  /// Returns the weight of a job's mean in that of the scope, in units of 1/w².
  [[nodiscard]] double weight_of(const Job& job) const;

  LevelModel model_;
  std::map<std::string, Job> jobs_;
  int num_runs_ = 0;
  double sum_ = 0.0;             ///< Sum of all runs' values.
  double squares_ = 0.0;         ///< Sum of their squares.
  double weights_ = 0.0;         ///< Sum of the jobs' weights.
  double weighted_means_ = 0.0;  ///< Sum of the jobs' means times their weights.
};

/// What the runs of a scope say of its mean.
struct LevelScope {
  LevelPath path;
  int num_runs = 0;
  Belief mean;

  friend bool operator==(const LevelScope& a, const LevelScope& b) {
    return a.path == b.path && a.num_runs == b.num_runs && a.mean.mean == b.mean.mean &&
           a.mean.precision == b.mean.precision;
  }
};

/// What other scopes say of a scope's mean.
struct LevelPrior {
  Belief mean;           ///< Precision 0 if there are no other scopes.
  int stack_runs = 0;    ///< Number of runs of the stack in other scopes.
  int program_runs = 0;  ///< Number of runs of its kind of program in other scopes.
  int all_runs = 0;      ///< Number of runs in other scopes.
  int num_scopes = 0;    ///< Number of other scopes.
};

/// Computes what all scopes but those at `path` say of a scope there: each level draws to the mean
/// of the level above it (partial pooling).
[[nodiscard]] LevelPrior level_prior(const LevelModel& model, std::span<const LevelScope> scopes,
                                     const LevelPath& path);

/// What is expected of the next run of a job.
struct NextRun {
  Belief job;            ///< Belief about the mean of the job.
  double noise = 0.0;    ///< Variance of a run around that mean.
  double degrees = 0.0;  ///< Degrees of freedom behind these variances.

  /// Returns the variance of the run's value.
  [[nodiscard]] double variance() const { return 1.0 / job.precision + noise; }
};
/// Computes what the runs of a scope, and other scopes (`prior`), say of the next run of a job.
/// There must be a run in any of them. Without one in the scope itself, the degrees of freedom are
/// those of how the other scopes vary: their number less one.
[[nodiscard]] NextRun next_run(const LevelModel& model, const LevelPrior& prior,
                               const ScopeSums& sums, const std::string& job);

/// The runs of several scopes.
using RunsByScope = std::map<LevelPath, std::vector<LevelRun>>;

/// What a fit needs to know of the runs of one job in one scope.
struct JobStatistics {
  int num_runs = 0;
  double mean = 0.0;     ///< Mean of the runs' values.
  double squares = 0.0;  ///< Sum of their squared deviations from that mean.
};

/// What a fit needs to know of the runs of a scope.
struct ScopeStatistics {
  LevelPath path;
  double scatter_squared = 0.0;  ///< The scope's w².
  std::vector<JobStatistics> jobs;
};
/// Sums up the runs of each scope; the scatter is the one under `model`.
[[nodiscard]] std::vector<ScopeStatistics> statistics_of(const LevelModel& model,
                                                         const RunsByScope& scopes);

/// Computes the logarithm of the restricted likelihood (REML) of runs: that of their differences,
/// whatever the mean over all is. Constants are left out.
[[nodiscard]] double restricted_log_likelihood(const LevelModel& model,
                                               std::span<const ScopeStatistics> scopes);

}  // namespace ptdp
