// How far steps of this project's runtime on one GPU lie from their predictions, term by term.
#pragma once

#include <optional>
#include <string_view>

#include "cost_model/measured/interval.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "planner/plan/run_terms.h"

namespace ptdp {

/// What measured steps say of ln(measured/predicted) of one that was not measured.
struct TermError {
  double mean = 0.0;
  double deviation = 0.0;  ///< Standard deviation of another step, the mean's own included.
  double degrees = 1.0;    ///< Degrees of freedom of the deviation.

  /// Returns the 90 % interval of measured/predicted.
  [[nodiscard]] RelativeInterval interval() const;
};

/// Errors of steps and of their terms.
struct StepErrors {
  std::string_view basis;  ///< Which steps they are of, for people.
  TermError step;
  TermError matmul;
  TermError attention;
  TermError memory_bound;
  TermError optimizer;

  /// Returns the errors of a term; nullptr for one that a single GPU lacks.
  [[nodiscard]] const TermError* of(RunTerm term) const;
  /// Returns a term's predicted time with the 90 % interval of measured ones; nullopt for a term
  /// that a single GPU lacks.
  [[nodiscard]] std::optional<Estimate<Seconds>> estimate(RunTerm term, Seconds predicted) const;
};

/// Steps of H200s (tests/golden/h200_steps.csv) beside predictions from the data sheet and measured
/// parts. There are 27 whole steps of four cards, one of which may differ from the next. Their
/// terms are known of 17 steps of two cards: deviation·√(1 + 1/17). Attention has the nine of card
/// a, since the catalog's rates of it come from card d.
inline constexpr StepErrors kErrorsByDataSheet = {
    .basis = "steps of this runtime on four H200, their terms on two",
    .step = {0.0003, 0.0257, 5.98},
    .matmul = {-0.0132, 0.0323, 16.0},
    .attention = {-0.0105, 0.0447, 8.0},
    .memory_bound = {0.0939, 0.2005, 16.0},
    .optimizer = {-0.0833, 0.0456, 16.0}};
/// Eight steps of one card beside predictions from what `ptdp-profile` measured on it in 195 s.
inline constexpr StepErrors kErrorsByProfile = {
    .basis = "eight steps of this runtime on one H200, predicted from its profile",
    .step = {-0.0110, 0.0242, 7.0},
    .matmul = {-0.0007, 0.0270, 7.0},
    .attention = {-0.0552, 0.0597, 7.0},
    .memory_bound = {-0.0411, 0.1790, 7.0},
    .optimizer = {0.0681, 0.0461, 7.0}};

/// Returns the errors of steps that resemble the job's: of this project's runtime on one GPU, which
/// is an H200 by its data sheet or has a profile of its own. Returns nullptr for other jobs.
[[nodiscard]] const StepErrors* step_errors(const PlannedJob& job);

}  // namespace ptdp
