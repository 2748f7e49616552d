// Measured runs with the times that the uncalibrated cost model predicts for them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/measured/measured_run.h"

namespace ptdp {

class ProfileCache;

/// A measured run with its prediction by the uncalibrated cost model.
struct CostedRun {
  MeasuredRun run;
  Seconds predicted;  ///< Predicted time of an iteration, not calibrated.
  /// What it trained in, of precision_names(); empty: not known.
  std::string precision = {};
  /// Scenario of a run of ptdp-run, which holds its profiles by value; null for a row of a table,
  /// which names its profiles.
  std::shared_ptr<const Scenario> scenario = nullptr;
};

/// A row that leaves fields out, with the ways in which it may have been run (partial_runs.h). A
/// partial run calibrates nothing and counts in no error.
struct PartialRun {
  std::string id;
  std::string group;
  std::vector<std::string> unknown;  ///< Columns that the row leaves out.
  std::int64_t tried = 0;            ///< Number of ways tried, those that cannot run included.
  /// Number of ways that run and fit into memory; when none fits, number of all ways that run.
  std::int64_t num_ways = 0;
  /// Ways near the fastest (partial_runs.h), each with the time that the row's measurement means
  /// for it. At least one.
  std::vector<CostedRun> completions;
  bool fits = true;  ///< Whether any way fits by the model of memory.
};

/// Measured runs by what the cost model makes of them.
struct CostedRuns {
  std::vector<CostedRun> costed;
  std::vector<SkippedRun> skipped;  ///< Runs without a prediction, with the reason.
  std::vector<PartialRun> partial;  ///< Runs that complete_partial_runs() completed, in row order.
};

/// Returns the scenario of a run: its profiles, with what the row itself says of overlap and
/// precision. Throws Error for unknown profiles.
[[nodiscard]] Scenario scenario_of(const MeasuredRun& run);

/// Returns the scenario of a run: the one it holds, else that of the profiles that its row names.
/// Throws Error for unknown profiles.
[[nodiscard]] Scenario scenario_of(const CostedRun& run);
/// Returns scenario_of() with profiles that `profiles` finds once for many runs.
[[nodiscard]] Scenario scenario_of(const CostedRun& run, ProfileCache& profiles);

/// Returns why a run's profile or numbers keep the cost model from costing it; nullopt if it can be
/// costed.
[[nodiscard]] std::optional<std::string> find_skip_reason(const MeasuredRun& run,
                                                          ProfileCache& profiles);

/// Costs every run as configured. A run without a profile, or whose configuration the model cannot
/// cost, is skipped with the reason. Works on all cores; results are in the order of the runs.
[[nodiscard]] CostedRuns cost_runs(const MeasuredRuns& runs);
/// Costs every run as cost_runs(runs) does, on one core, with profiles that are found already.
[[nodiscard]] CostedRuns cost_runs(const MeasuredRuns& runs, ProfileCache& profiles);

/// Returns why the first of these runs was skipped, and how many more there are.
[[nodiscard]] std::string first_skipped(const std::vector<SkippedRun>& skipped);
/// Returns lines that say how many runs were skipped, and how many for each reason.
[[nodiscard]] std::string tally_of_skipped(const std::vector<SkippedRun>& skipped);

/// Returns the time of all GPUs together for a sequence, where an iteration takes `iteration`.
[[nodiscard]] Seconds gpu_time_per_sequence(Seconds iteration, const MeasuredRun& run);

/// Returns the hardware TFLOP/s per GPU of a run whose iteration takes `time`.
[[nodiscard]] double tflops_per_gpu(const MeasuredRun& run, Seconds time);

/// Reads the runs of several files (read_measured_runs()), one after another. Throws Error.
[[nodiscard]] MeasuredRuns read_runs(const std::vector<std::filesystem::path>& files);

/// Returns whether a run's cluster and stack are those of the scenario; see
/// ProfileCache::is_place_of().
[[nodiscard]] bool is_run_on(const MeasuredRun& run, const Scenario& scenario);

}  // namespace ptdp
