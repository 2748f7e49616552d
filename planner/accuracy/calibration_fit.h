// Updates the levels with measured runs, and says what that is worth.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/text/files.h"
#include "planner/accuracy/calibration_file.h"
#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// What a user's runs with measured memory say of the memory beyond the formulas.
struct StackMemoryFit {
  int num_runs = 0;
  MemoryBelief before;          ///< What is shipped for another job like the first run.
  MemoryBelief after;           ///< What is known of that job with the runs.
  ErrorSummary shipped_errors;  ///< Errors with what is shipped, published runs of other jobs.
  ErrorSummary leave_one_out;   ///< Errors when all but the run itself say what to expect.
};

/// The calibration of one cluster, stack and kind of model by a user's runs.
struct StackFit {
  StackCalibration calibration;
  Calibration before;           ///< Shipped calibration of another job like the first run.
  Calibration after;            ///< Calibration of that job with the runs.
  ErrorSummary shipped_errors;  ///< Errors when published runs of other jobs calibrate each run.
  ErrorSummary in_sample;       ///< Errors when all runs of the scope calibrate each run.
  ErrorSummary leave_one_out;   ///< Errors when all but the run itself calibrate it.
  std::optional<StackMemoryFit> memory = {};  ///< Nullopt where no run has measured memory.
};

/// Fits each cluster, stack and kind of model. `source` names the files of the runs.
/// Throws Error when two profiles of one name differ, or a scope has more than kMostCalibrationRuns
/// runs.
[[nodiscard]] std::vector<StackFit> refit(const std::vector<CostedRun>& runs,
                                          const std::string& source);

/// Returns the refits as a table, with a tally of the runs that were not costed.
[[nodiscard]] std::string to_text(const std::vector<StackFit>& refits,
                                  const std::vector<SkippedRun>& skipped);

/// Returns the files to write below `directory`, one for each refit. Throws Error when there is
/// none or the directory lies in the shipped profiles.
[[nodiscard]] std::vector<FileContent> calibration_files(const std::filesystem::path& directory,
                                                         const std::vector<StackFit>& refits);

/// Writes calibration_files() into `directory`, which is made if needed. All files are written
/// beside their places first, then renamed one after another. Throws Error as calibration_files()
/// does, and Error(kOutputFailed) when something cannot be written.
void write_calibrations(const std::filesystem::path& directory,
                        const std::vector<StackFit>& refits);

}  // namespace ptdp
