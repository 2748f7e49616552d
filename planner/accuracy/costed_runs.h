// Measured runs, and what the cost model predicts for them.
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

/// A run with its prediction by the uncalibrated cost model.
struct CostedRun {
  MeasuredRun run;
  Seconds predicted;
  /// Of a run of ptdp-run, which holds its profiles by value; null: of those that the row names.
  std::shared_ptr<const Scenario> scenario = nullptr;
};

/// A row that leaves fields out, with every way in which it may have been run (partial_runs.h).
/// Nothing is calibrated by it, and no error counts.
struct PartialRun {
  std::string id;
  std::string group;
  std::vector<std::string> unknown;  ///< Columns that it leaves out.
  std::int64_t tried = 0;            ///< Completions, those that cannot run included.
  /// That run and fit into memory, each with the time that the row's measurement means for it; one
  /// at least. Where none fits, which a run that was measured did: all that run.
  std::vector<CostedRun> completions;
  bool fits = true;  ///< Whether any fits by the model of memory.
};

struct CostedRuns {
  std::vector<CostedRun> costed;
  std::vector<SkippedRun> skipped;  ///< In the order of the rows.
  std::vector<PartialRun> partial;  ///< By complete_partial_runs(), in the order of the rows.
};

/// The scenario of a run: its profiles, with what the row itself says of overlap and precision.
/// Throws Error for unknown profiles.
[[nodiscard]] Scenario scenario_of(const MeasuredRun& run);

[[nodiscard]] Scenario scenario_of(const CostedRun& run);

/// Why a run's profile or numbers keep the cost model from costing it; nothing where they do not.
[[nodiscard]] std::optional<std::string> find_skip_reason(const MeasuredRun& run,
                                                          ProfileCache& profiles);

/// Costs every run as configured. A run without a profile, or whose configuration the model cannot
/// cost, is skipped with the reason.
[[nodiscard]] CostedRuns cost_runs(const MeasuredRuns& runs);
/// The same with profiles at hand.
[[nodiscard]] CostedRuns cost_runs(const MeasuredRuns& runs, ProfileCache& profiles);

/// Says why the first of these runs was skipped, and how many more there are.
[[nodiscard]] std::string first_skipped(const std::vector<SkippedRun>& skipped);
/// How many runs were skipped, and how many for each reason, as lines.
[[nodiscard]] std::string tally_of_skipped(const std::vector<SkippedRun>& skipped);

/// Hardware TFLOP/s per GPU of a run whose iteration takes `time`.
[[nodiscard]] double tflops_per_gpu(const MeasuredRun& run, Seconds time);

/// The runs of several files (read_measured_runs), one after another.
[[nodiscard]] MeasuredRuns read_runs(const std::vector<std::filesystem::path>& files);

/// The shipped published runs (profiles/published/*.csv).
[[nodiscard]] MeasuredRuns read_published_runs();

/// Whether a run is of the scenario's model and batch, on so many GPUs.
[[nodiscard]] bool is_same_job(const MeasuredRun& run, const Scenario& scenario, std::int64_t gpus);

/// The published runs of the scenario's model, batch and number of GPUs, on any cluster and stack.
[[nodiscard]] std::vector<MeasuredRun> find_published_runs(const MeasuredRuns& published,
                                                           const Scenario& scenario,
                                                           std::int64_t gpus);

/// ProfileCache's.
[[nodiscard]] bool is_run_on(const MeasuredRun& run, const Scenario& scenario);

}  // namespace ptdp
