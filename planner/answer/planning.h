// The whole answer to "how should I train this model on these GPUs".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/measured/calibration.h"
#include "cost_model/measured/measured_run.h"
#include "cost_model/text/object_writer.h"
#include "planner/accuracy/calibration_file.h"
#include "planner/answer_format.h"
#include "planner/explain/binding.h"
#include "planner/explain/flips.h"
#include "planner/explain/gains.h"
#include "planner/explain/idle_gpus.h"
#include "planner/explain/rules_of_thumb.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"

namespace ptdp {

/// A published run of the same model, batch and number of GPUs, with its prediction.
struct PublishedComparison {
  MeasuredRun run;
  Prediction predicted;        ///< Prediction for the run's configuration on its cluster and stack.
  bool is_same_stack = false;  ///< Whether it ran on the cluster and stack that was planned for.
};

/// Why the first plan is as fast as it is, and what would change that.
struct PlanExplanation {
  Binding binding;  ///< What binds the plan, calibrated.
  Flips flips;      ///< What other inputs would do; times are not calibrated.
  Gains gains;
};

/// The plans for a job, with everything that an answer sets beside them.
struct PlanningResult {
  Scenario scenario;
  SearchOptions options;
  SearchResult search;
  CalibrationFit calibration;
  MemoryBelief memory;  ///< What runs say of memory beyond the formulas.
  /// Whether no prediction beside a published run rests on that run.
  bool leaves_out_published_runs = true;
  std::vector<Plan> plans;          ///< Plans of search.best, in order, calibrated.
  std::vector<Baseline> baselines;  ///< Rules of thumb; none if the limit left no time for them.
  std::vector<PublishedComparison> published;
  std::optional<FullerBatch> fuller;  ///< A batch that uses GPUs that would else be idle.
  /// What explain_plan() found of the first plan, where somebody asked for it.
  std::optional<PlanExplanation> explanation = std::nullopt;
};

/// Searches, calibrates, and sets the result beside the rules of thumb and published runs. Throws
/// Error for a scenario that cannot be costed. When nothing fits, `plans` is empty.
[[nodiscard]] PlanningResult plan_training(
    const Scenario& scenario, const SearchOptions& options,
    const CalibrationSource& calibration = CalibrationSource::shipped());

/// Returns what was planned for (job, GPUs, cluster, stack, objective) as a part of documents.
[[nodiscard]] ObjectWriter inputs_json(const Scenario& scenario, const SearchOptions& options);
/// Returns the counts of a search as a part of documents, and whether it came to its end. If not,
/// adds the least time of an iteration of what is left, calibrated.
[[nodiscard]] ObjectWriter candidates_json(const SearchResult& search,
                                           double calibration_factor = 1.0);
/// Returns a remark for people on a search that its limit ended, with an empty line before; returns
/// an empty string for other searches.
[[nodiscard]] std::string unproven_remark(const SearchResult& search, const SearchOptions& options,
                                          double calibration_factor);
/// Returns how likely a plan is better than another one under the result's objective
/// (probability_of_order()). The result must be calibrated.
[[nodiscard]] double probability_better(const Plan& plan, const Plan& other,
                                        const PlanningResult& result);
/// Returns a costed configuration as a part of documents: its time, calibrated, and peak memory.
[[nodiscard]] ObjectWriter candidate_json(const Candidate& candidate, double calibration_factor);

inline constexpr const char* kPlansSchema = "ptdp.plans/1";

/// Returns the result as `ptdp.plans/1`, described in FORMATS.md; equal results give equal bytes.
[[nodiscard]] std::string to_json(const PlanningResult& result, const RunBudget& budget = {});

/// Returns the result as CSV: a header, then a line per plan. The columns training_s, gpu_hours and
/// cost are empty without a budget.
[[nodiscard]] std::string to_csv(const PlanningResult& result, const RunBudget& budget = {});

/// What an answer for people says beside the result.
struct AnswerNotes {
  std::vector<std::string> assumptions;  ///< What was assumed, one line each: "value: why".
  std::vector<std::string> remarks;      ///< What else a person should know, one line each.
  std::string next;                      ///< The command to type next.
  bool is_whole = false;                 ///< Whether all that is known is told (-v).
};

/// Returns the answer in a format. For the text `result.plans` must not be empty; it is
/// summary_text(), or to_text() if the notes ask for the whole.
[[nodiscard]] std::string in_format(AnswerFormat format, const PlanningResult& result,
                                    const RunBudget& budget, const AnswerNotes& notes);

}  // namespace ptdp
