// The answer to "what does exactly this configuration cost, and what would the best plan gain".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/accuracy/calibration_file.h"
#include "planner/answer/measured_iteration.h"
#include "planner/answer/planning.h"
#include "planner/answer_format.h"
#include "planner/explain/fitting_changes.h"
#include "planner/explain/nothing_fits.h"
#include "planner/import/imported_run.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"

namespace ptdp {

/// One configuration, costed as it is.
struct GivenConfig {
  Scenario scenario;
  SearchOptions options;
  ParallelConfig config;
  std::string violation;  ///< Why it cannot run, with the nearest values that would do; else empty.
  /// The configuration with its prediction and memory, also if it is only out of memory; nullopt if
  /// its numbers do not go together.
  std::optional<Plan> plan;
  SearchResult search;  ///< What the search finds for the same job on the same GPUs.
  CalibrationFit calibration;
  MemoryBelief beyond = {};     ///< What runs say of memory beyond the formulas.
  FittingChanges changes = {};  ///< The smallest changes that make it run; none where it can.
  /// More GPUs on which something fits, looked for where nothing does on those there are.
  std::optional<LargerCluster> larger = {};
  std::optional<MeasuredIteration> measured = {};  ///< What an iteration really took, if known.
};

/// Costs a configuration, and searches as `options` say for the best one. Of one that cannot run it
/// finds the smallest changes after which it can. A schedule, or a split of the layers, that the
/// stack does not run is costed, too. Throws Error for a scenario that cannot be costed.
[[nodiscard]] GivenConfig cost_given_config(const Scenario& scenario, const SearchOptions& options,
                                            const ParallelConfig& config,
                                            const CalibrationSource& calibration);

/// Returns the plan of a configuration that ran, also if by the formulas it is out of memory.
/// Throws Error for a scenario that cannot be costed, and for numbers that do not go together.
[[nodiscard]] Plan plan_given_config(const Scenario& scenario, const SearchOptions& options,
                                     const ParallelConfig& config,
                                     const CalibrationSource& calibration);

/// Returns whether the configuration can run.
[[nodiscard]] bool can_run(const GivenConfig& given);

/// Returns the smallest changes that make the configuration run, as text.
[[nodiscard]] std::string fitting_changes_text(const GivenConfig& given);
/// Returns what the best plan of the search would gain, as text that ends with `best_command`.
/// Where that ends in "--config", the plan's configuration is added.
[[nodiscard]] std::string gain_text(const GivenConfig& given, std::string best_command);

/// Returns the answer as text for people: on the first line whether it fits, then by how much and
/// what would make it fit. `notes.next` is what to type for the best plan; where it ends in
/// "--config", the plan's configuration is added.
[[nodiscard]] std::string to_text(const GivenConfig& given, const ReadingNotes& reading,
                                  const RunBudget& budget, const AnswerNotes& notes);
/// Returns the answer as `ptdp.given/1`, described in FORMATS.md; equal answers give equal bytes.
[[nodiscard]] std::string to_json(const GivenConfig& given, const ReadingNotes& reading);

}  // namespace ptdp
