// The loop closed: run the best plans of a search, correct the profiles by what they measured,
// search again.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/answer/plan_list.h"
#include "planner/answer_format.h"
#include "planner/profile_refit/profile_refit.h"

namespace ptdp {

/// A plan that ran.
struct PlanRun {
  RunReport report;
  std::vector<double> step_times;  ///< Of every measured step [s].
};

/// Runs plans on the machine, so that its drift hits all of them alike, and reports each.
using PlanRunner = std::function<std::vector<PlanRun>(const std::vector<Plan>&)>;

/// A plan with what was predicted of it before and after, and what it took.
struct TunedPlan {
  Plan plan;  ///< As it was predicted at first.
  PlanRun run;
  Plan corrected;       ///< The same configuration under the corrected profiles.
  bool is_new = false;  ///< Found by the second search only.

  [[nodiscard]] Seconds planned_time() const { return plan.predicted.iteration_time.value; }
  [[nodiscard]] Seconds corrected_time() const { return corrected.predicted.iteration_time.value; }
  [[nodiscard]] Seconds measured() const { return run.report.measured_time; }
  /// Of its steps: between the quarter points [s].
  [[nodiscard]] double spread() const;
  /// Of the median of its steps [s]: 1.253 σ/√n, as of n independent steps of a normal
  /// distribution, with σ = spread/1.349. Infinite of one step, which says nothing of scatter.
  [[nodiscard]] double standard_error() const;
};

struct Tuning {
  std::vector<TunedPlan> plans;  ///< That ran: in the order of the first search, then a new one.
  ProfileRefit refit;            ///< By all of them.
  std::size_t chosen_first = 0;  ///< Of `plans`: what the search chose,
  std::size_t chosen_again = 0;  ///< what the corrected profiles choose of those that ran,
  std::size_t fastest = 0;       ///< and what was fastest.
  std::optional<Plan> not_run;   ///< What the search chooses by them, where it did not run.

  /// What to train with: the first choice where it ties with the fastest, else the fastest.
  [[nodiscard]] std::size_t best() const;
  [[nodiscard]] bool has_changed() const { return best() != chosen_first; }
  /// Time of a plan over that of the fastest, minus 1.
  [[nodiscard]] double regret_of(std::size_t plan) const;
  /// By how much the first choice takes longer than another plan, of that one's time: as predicted
  /// by the corrected profiles, and as measured.
  [[nodiscard]] double predicted_gain(std::size_t plan) const;
  [[nodiscard]] double measured_gain(std::size_t plan) const;
};

/// Whether the medians of two plans are no further apart than twice the standard error of their
/// difference.
[[nodiscard]] bool is_tie(const TunedPlan& a, const TunedPlan& b);

/// The term of the prediction by which the first choice lost most against the tuned plan from the
/// first prediction to the corrected one.
struct ChangedTerm {
  std::string name;  ///< Of kCostTerms.
  Seconds before;    ///< By how much longer the first choice takes in it, as predicted at first,
  Seconds after;     ///< and by the corrected profiles.
};
[[nodiscard]] ChangedTerm find_changed_term(const Tuning& tuning);

/// Runs the first `most` plans of the list, refits, searches again under the same options; runs the
/// new best where it did not run, beside the fastest so far; then refits to all and searches once
/// more, so that what is chosen rests on all that was measured. `sources` as for
/// refit_profile. Throws Error for an empty list, and where no plan may be a refit's evidence.
[[nodiscard]] Tuning tune(const PlanList& list, std::size_t most, const PlanRunner& run,
                          const std::string& sources);

[[nodiscard]] std::string to_table(const Tuning& tuning);
/// `ptdp.tuning/1`, described in FORMATS.md.
[[nodiscard]] std::string to_json(const Tuning& tuning);
[[nodiscard]] std::string in_format(AnswerFormat format, const Tuning& tuning);

}  // namespace ptdp
