// Several runs of ptdp-run, predicted beside measured: how far off, in which terms, and whether
// plans of one job are in their measured order.
#pragma once

#include <string>
#include <vector>

#include "cost_model/measured/calibration.h"
#include "planner/answer_format.h"
#include "planner/runs/run_evidence.h"

namespace ptdp {

/// Plans of one job that differ by more than this in measured time ought to be in the right order.
inline constexpr double kClearDifference = 0.10;

/// Plans of one job (model, batch, GPUs given, hardware), as predicted and as measured.
struct PlanOrder {
  std::string job;  ///< "small, batch 16, 2 GPUs".
  int runs = 0;
  int pairs = 0;    ///< That differ by more than kClearDifference.
  int ordered = 0;  ///< Of them, predicted in the measured order.
  /// Measured time of the run predicted fastest over the least measured, minus 1.
  double regret = 0.0;
};

/// What is predicted and measured of one plan.
struct PlanTimes {
  double predicted = 0.0;
  double measured = 0.0;
};
/// Fills in all but the job. Of equal predictions the first is taken.
[[nodiscard]] PlanOrder order_of(const std::vector<PlanTimes>& plans);

/// A term (run_terms.h) over all runs.
struct TermErrors {
  std::string name;
  double share = 0.0;          ///< Of the iteration as measured, mean of the runs.
  double bias = 0.0;           ///< (Predicted − measured)/iteration, mean of the runs.
  double mean_absolute = 0.0;  ///< The same without sign: what it adds to the error at most.
};

struct RunSet {
  std::vector<NamedReport> runs;           ///< That were predicted, in order.
  std::vector<std::string> not_predicted;  ///< "run.json: why", of the others.
  ErrorSummary errors;                     ///< Of their iterations.
  std::vector<TermErrors> terms;
  std::vector<PlanOrder> orders;  ///< Of jobs with at least two runs, by name.
};
[[nodiscard]] RunSet compare_runs(const std::vector<NamedReport>& runs);

[[nodiscard]] std::string to_table(const RunSet& set);
/// `ptdp.runs/1`, described in FORMATS.md.
[[nodiscard]] std::string to_json(const RunSet& set);
[[nodiscard]] std::string in_format(AnswerFormat format, const RunSet& set);

}  // namespace ptdp
