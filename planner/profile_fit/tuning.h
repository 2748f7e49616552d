// Tuning: run the best plans of a search, correct the profiles by what they measured, and search
// again.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/answer/plans_document.h"
#include "planner/answer_format.h"
#include "planner/profile_fit/profile_fit.h"

namespace ptdp {

/// What the run of a plan measured.
struct RanPlan {
  RunReport report;
  std::vector<double> step_times;  ///< Time of every measured step [s].
};

/// A function that runs plans on the machine and reports each in order. It runs them so that drift
/// of the machine hits all alike.
using PlanRunner = std::function<std::vector<RanPlan>(const std::vector<Plan>&)>;

/// A plan that ran, with its predictions before and after the refit.
struct TunedPlan {
  Plan plan;  ///< The plan as it was predicted at first.
  RanPlan run;
  Plan corrected;       ///< The plan of the same configuration under the corrected profiles.
  bool is_new = false;  ///< Whether only the second search found it.

  /// Returns the iteration time predicted at first.
  [[nodiscard]] Seconds planned_time() const { return plan.predicted.iteration_time.value; }
  /// Returns the iteration time predicted by the corrected profiles.
  [[nodiscard]] Seconds corrected_time() const { return corrected.predicted.iteration_time.value; }
  /// Returns the measured iteration time, the median of the steps.
  [[nodiscard]] Seconds measured() const { return run.report.measured_time; }
  /// Returns the distance between the quarter points of the step times [s].
  [[nodiscard]] double spread() const;
  /// Returns the standard error of the median of the step times [s]:
  ///
  ///   1.253 σ/√n, with σ = spread/1.349
  ///
  /// as of n independent steps of a normal distribution. Infinite for one step, which says nothing
  /// of scatter.
  [[nodiscard]] double standard_error() const;
};

/// What tuning found.
struct Tuning {
  /// The plans that ran, in the order of the first search; a plan of the second search comes last.
  std::vector<TunedPlan> plans;
  ProfileFit fit;                ///< Profiles corrected by all `plans`.
  std::size_t chosen_first = 0;  ///< Index in `plans` of the first search's choice.
  std::size_t chosen_again = 0;  ///< Index in `plans` of the choice by the corrected profiles.
  std::size_t fastest = 0;       ///< Index in `plans` of the plan measured fastest.
  /// The choice of the search with the corrected profiles; nullopt if that plan ran.
  std::optional<Plan> not_run;

  /// Returns the index of the plan to train with: the first choice if it ties with the fastest,
  /// else the fastest.
  [[nodiscard]] std::size_t best() const;
  /// Returns whether best() is another plan than the first choice.
  [[nodiscard]] bool has_changed() const { return best() != chosen_first; }
  /// Returns the measured time of a plan over that of the fastest, minus 1.
  [[nodiscard]] double regret_of(std::size_t plan) const;
  /// Returns the first choice's time over another plan's, minus 1, by the corrected profiles.
  [[nodiscard]] double predicted_gain(std::size_t plan) const;
  /// Returns the first choice's time over another plan's, minus 1, as measured.
  [[nodiscard]] double measured_gain(std::size_t plan) const;
};

/// Returns whether the medians of two plans are no further apart than twice the standard error of
/// their difference.
[[nodiscard]] bool is_tie(const TunedPlan& a, const TunedPlan& b);

/// The term of the prediction by which the first choice lost most against the tuned plan, from the
/// first prediction to the corrected one.
struct ChangedTerm {
  std::string name;  ///< Name of the term in kCostTerms.
  Seconds before;    ///< First choice minus tuned plan in this term, as predicted at first.
  Seconds after;     ///< First choice minus tuned plan in this term, by the corrected profiles.
};
/// Finds the term that changed most.
[[nodiscard]] ChangedTerm find_changed_term(const Tuning& tuning);

/// Runs the first `most` plans of the list, refits the profiles, and searches again under the same
/// options. If the new best did not run, runs it beside the fastest so far, refits to all runs and
/// searches once more. What is chosen thus rests on all that was measured. `sources` is that of
/// fit_profile(). Throws Error for an empty list, for runs that fit_profile() refuses, and when
/// a search finds no plan.
[[nodiscard]] Tuning tune(const PlansDocument& list, std::size_t most, const PlanRunner& run,
                          const std::string& sources);

/// Returns what tuning found as text for people.
[[nodiscard]] std::string to_text(const Tuning& tuning);
/// Returns what tuning found as `ptdp.tuning/1`, described in FORMATS.md.
[[nodiscard]] std::string to_json(const Tuning& tuning);
/// Returns what tuning found in a format, JSON or text.
[[nodiscard]] std::string in_format(AnswerFormat format, const Tuning& tuning);

}  // namespace ptdp
