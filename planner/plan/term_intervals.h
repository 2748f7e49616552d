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

/// Steps of H200s (tests/golden/h200_steps.csv) beside predictions from the data sheet and from
/// published measurements of parts. Of whole steps 19 are known, of three cards, one of which may
/// differ from the next. Of their terms nine are known, of one card: deviation·√(1 + 1/9).
inline constexpr StepErrors kErrorsByDataSheet = {
    .basis = "steps of this runtime on three H200, their terms on one",
    .step = {0.0275, 0.0269, 3.57},
    .matmul = {-0.0144, 0.0323, 8.0},
    .attention = {0.2494, 0.0421, 8.0},
    .memory_bound = {0.0784, 0.2005, 8.0},
    .optimizer = {-0.0833, 0.0487, 8.0}};
/// The nine steps of one card beside predictions from what `ptdp-profile` measured on it in 40 s.
inline constexpr StepErrors kErrorsByProfile = {
    .basis = "nine steps of this runtime on one H200, predicted from its profile",
    .step = {-0.0204, 0.0312, 8.0},
    .matmul = {-0.0100, 0.0399, 8.0},
    .attention = {-0.0010, 0.0597, 8.0},
    .memory_bound = {-0.0957, 0.1519, 8.0},
    .optimizer = {0.0836, 0.0461, 8.0}};

/// Returns the errors of steps that resemble the job's: of this project's runtime on one GPU, which
/// is an H200 by its data sheet or has a profile of its own. Returns nullptr for other jobs.
[[nodiscard]] const StepErrors* step_errors(const PlannedJob& job);

}  // namespace ptdp
