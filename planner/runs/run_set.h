// Compares several runs of ptdp-run with their predictions: how far off, in which terms, and
// whether plans of one job are in their measured order.
#pragma once

#include <string>
#include <vector>

#include "cost_model/measured/calibration.h"
#include "planner/answer_format.h"
#include "planner/runs/run_evidence.h"

namespace ptdp {

/// The relative difference of measured times beyond which two plans of one job ought to be in the
/// right order.
inline constexpr double kClearDifference = 0.10;

/// How well predictions order the plans of one job (model, batch, sequence, precision, GPUs given,
/// hardware).
struct PlanOrder {
  std::string job;  ///< The job: "small, batch 16, sequence 128, fp32, 2 GPUs of host".
  int runs = 0;
  int pairs = 0;    ///< Pairs of runs that differ by more than kClearDifference.
  int ordered = 0;  ///< Pairs among `pairs` that are predicted in the measured order.
  /// Measured time of the run predicted fastest over the least measured, minus 1.
  double regret = 0.0;
};

/// The iteration time of one plan, predicted and measured, in any one unit.
struct PlanTimes {
  double predicted = 0.0;
  double measured = 0.0;
};
/// Compares the order of plans as predicted and as measured; leaves `job` empty. Of equal
/// predictions the first counts as predicted fastest.
[[nodiscard]] PlanOrder order_of(const std::vector<PlanTimes>& plans);

/// A term (run_terms.h) over all runs.
struct TermErrors {
  std::string name;
  double share = 0.0;  ///< Share of the measured iteration, mean of the runs.
  double bias = 0.0;   ///< (predicted − measured)/iteration, mean of the runs.
  /// |predicted − measured|/iteration, mean of the runs: the most that the term adds to the error.
  double mean_absolute = 0.0;
};

/// Several runs compared with their predictions.
struct RunSet {
  std::vector<NamedReport> runs;           ///< Runs that were predicted, in the order given.
  std::vector<std::string> not_predicted;  ///< The other runs, as "run.json: why".
  ErrorSummary errors;                     ///< Errors of the iteration times of `runs`.
  std::vector<TermErrors> terms;
  std::vector<PlanOrder> orders;  ///< Orders of jobs with at least two runs, by name.
};
/// Compares runs with their predictions.
[[nodiscard]] RunSet compare_runs(const std::vector<NamedReport>& runs);

/// Returns the comparison as tables for people.
[[nodiscard]] std::string to_text(const RunSet& set);
/// Returns the comparison as `ptdp.runs/1`, described in FORMATS.md.
[[nodiscard]] std::string to_json(const RunSet& set);
/// Returns the comparison in a format, JSON or text.
[[nodiscard]] std::string in_format(AnswerFormat format, const RunSet& set);

}  // namespace ptdp
