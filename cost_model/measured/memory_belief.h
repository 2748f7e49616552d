// What measured runs say of the memory of the next one: how much lies beyond the formulas, and how
// likely it fits. What memory a source measures (allocated, reserved, in the driver's eyes) differs
// from stack to stack; the stack's level takes that.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cost_model/measured/calibration.h"
#include "cost_model/measured/levels.h"
#include "cost_model/units.h"

namespace ptdp {

/// A run whose memory was measured and computed.
struct MemoryRun {
  Bytes measured;   ///< Memory of the GPU that has most in use.
  Bytes formulas;   ///< Computed memory of the heaviest stage, without any reserve.
  std::string job;  ///< Name of its job (job_name()).
};

/// Returns a run as the levels see it: measured − formulas [GiB].
[[nodiscard]] LevelRun level_run(const MemoryRun& run);

/// A belief about the memory that a run has beyond the formulas: Student's distribution around
/// `expected`.
struct MemoryBelief {
  Support support;       ///< Runs with measured memory; the distance is left out.
  Bytes expected;        ///< Expected memory beyond the formulas, which may be below 0.
  Bytes deviation;       ///< Standard deviation of the next run's.
  double degrees = 0.0;  ///< Degrees of freedom behind the deviation.

  friend bool operator==(const MemoryBelief&, const MemoryBelief&) = default;

  /// Returns whether any run is behind the belief. All else needs one.
  [[nodiscard]] bool is_known() const { return support.all_runs > 0; }
  /// Returns what the memory beyond the formulas stays below with a probability.
  [[nodiscard]] Bytes quantile(double probability) const;
  /// Returns the half-width of the 90 % interval around what is expected.
  [[nodiscard]] Bytes half_width() const { return quantile(0.95) - expected; }
  /// Returns how likely a run with this memory by the formulas fits into `capacity`, to four
  /// digits.
  [[nodiscard]] double probability_of_fitting(Bytes formulas, Bytes capacity) const;
};

/// Computes what runs of a scope, and other scopes (`prior`), say of the memory of a job.
[[nodiscard]] MemoryBelief believe_memory(const LevelModel& model, const LevelPrior& prior,
                                          std::span<const MemoryRun> runs, const std::string& job);

/// Returns for each run, in order, what all other runs of the scope and `prior` say of it.
[[nodiscard]] std::vector<MemoryBelief> leave_one_out(const LevelModel& model,
                                                      const LevelPrior& prior,
                                                      std::span<const MemoryRun> runs);

}  // namespace ptdp
