// Whether one configuration fits, by stage, and what would make it fit, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cost_model/measured/memory_belief.h"
#include "cost_model/text/object_writer.h"
#include "planner/explain/fitting_changes.h"
#include "planner/plan/plan.h"

namespace ptdp {

/// Returns the verdict on a line: "Fits: yes, with 93 %; stage 1 of 16 needs 71.30 of 80.00 GiB",
/// or "Fits: no (with about 60 % only), stage 1 of 16 needs 91.30 of 80.00 GiB, 11.30 GiB too
/// much".
[[nodiscard]] std::string fit_line(const Plan& plan);

/// Returns a table of memory by stage and category [GiB] above what a GPU has, at most 80 columns
/// wide. It shows the first stage, the heaviest and the last, or one where all are equal.
[[nodiscard]] std::string stage_table(const Plan& plan);

/// What a list of changes is told beside.
struct ChangedConfig {
  const Scenario& scenario;
  const SearchOptions& options;
  const ParallelConfig& config;  ///< The configuration that does not fit.
  /// Time of an iteration if it had the memory, calibrated; 0 where its numbers do not go together.
  Seconds time;
  double calibration_factor = 1.0;
  MemoryBelief beyond = {};  ///< What runs say of memory beyond the formulas.
};

/// Returns a configuration as one argument of a shell: "tp=8,pp=64,dp=6,b=1,1f1b,recompute=full".
[[nodiscard]] std::string typed(const ParallelConfig& config);
/// Returns how likely a configuration fits that has this memory, the reserve included.
[[nodiscard]] double probability_of_fitting(Bytes memory, const Scenario& scenario,
                                            double memory_headroom, const MemoryBelief& beyond);
/// Returns the changes with time, memory and the flags to type, three lines each; where there are
/// none, a line that says so.
[[nodiscard]] std::string changes_text(const FittingChanges& changes, const ChangedConfig& from);
/// Returns the changes as `changes` of ptdp.given/1.
[[nodiscard]] std::vector<ObjectWriter> changes_json(const FittingChanges& changes,
                                                     const ChangedConfig& from);

}  // namespace ptdp
