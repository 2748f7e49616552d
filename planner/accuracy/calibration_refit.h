// New factors out of measured runs, beside what the shipped calibration makes of them.
#pragma once

#include <string>
#include <vector>

#include "cost_model/text/files.h"
#include "planner/accuracy/calibration_file.h"
#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// One cluster, stack and kind of model refitted.
struct Refit {
  StackCalibration calibration;
  CalibrationFit shipped;       ///< By all published runs.
  ErrorSummary shipped_errors;  ///< Of each run by published runs of other jobs.
  ErrorSummary in_sample;
  ErrorSummary leave_one_out;

  /// Fewer runs have no factor.
  [[nodiscard]] bool is_fitted() const { return calibration.fit().is_calibrated(); }
};

/// By cluster, stack and kind of model. `source` names the files of the runs. Throws Error where
/// two profiles of one name differ, or a cluster and stack has more than kMostCalibrationRuns runs.
[[nodiscard]] std::vector<Refit> refit(const std::vector<CostedRun>& runs,
                                       const std::string& source);

/// The refits as a table, and what was not costed.
[[nodiscard]] std::string to_table(const std::vector<Refit>& refits,
                                   const std::vector<SkippedRun>& skipped);

/// The files below `directory` of those that have a factor. Throws Error where none has one or the
/// directory is in the shipped profiles.
[[nodiscard]] std::vector<FileContent> calibration_files(const std::filesystem::path& directory,
                                                         const std::vector<Refit>& refits);

/// Writes those files into `directory`, which is made where it is not there: all beside their
/// places first, then renamed one after another. Throws Error as above, and Error(kOutputFailed)
/// where something cannot be written.
void write_calibrations(const std::filesystem::path& directory, const std::vector<Refit>& refits);

}  // namespace ptdp
