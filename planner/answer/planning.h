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
#include "planner/explain/rules_of_thumb.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"

namespace ptdp {

/// A published run of the same model, batch and number of GPUs, with what we predict for its
/// configuration and for the best one under the same calibration.
struct PublishedComparison {
  MeasuredRun run;
  Prediction predicted;
  bool is_same_stack = false;  ///< Run on the cluster and stack that was planned for.
};

struct PlanningResult {
  Scenario scenario;
  SearchOptions options;
  SearchResult search;
  CalibrationFit calibration;
  /// Whether no prediction beside a published run rests on that run.
  bool leaves_out_published_runs = true;
  std::vector<Plan> plans;          ///< Of search.best, in order.
  std::vector<Baseline> baselines;  ///< None where the search's limit left no time for them.
  std::vector<PublishedComparison> published;
};

/// Searches, calibrates and sets the result beside the rules of thumb and
/// published results. Throws Error for a scenario that cannot be costed; that nothing fits is an
/// answer
/// (`plans` is empty).
[[nodiscard]] PlanningResult plan_training(
    const Scenario& scenario, const SearchOptions& options,
    const CalibrationSource& calibration = CalibrationSource::shipped());

/// What was planned for, for documents that say so.
[[nodiscard]] ObjectWriter inputs_json(const Scenario& scenario, const SearchOptions& options);
/// Counts of a search, for documents that hold one; whether it came to its end, and if not, what is
/// left takes at least, calibrated.
[[nodiscard]] ObjectWriter candidates_json(const SearchResult& search,
                                           double calibration_factor = 1.0);
/// What to say to people of a search that its limit ended, an empty line before; nothing of others.
[[nodiscard]] std::string unproven_remark(const SearchResult& search, const SearchOptions& options,
                                          double calibration_factor);
/// A costed configuration, calibrated, for documents that hold one.
[[nodiscard]] ObjectWriter candidate_json(const Candidate& candidate, double calibration_factor);

inline constexpr const char* kPlansSchema = "ptdp.plans/1";

/// The result as `ptdp.plans/1`, described in FORMATS.md; equal results give equal bytes.
[[nodiscard]] std::string to_json(const PlanningResult& result, const RunBudget& budget = {});

/// One line of comma-separated values per plan, with a header; training_s, gpu_hours and cost are
/// empty without a budget.
[[nodiscard]] std::string to_csv(const PlanningResult& result, const RunBudget& budget = {});

/// The answer in a format. For people it ends in what was assumed and the command to type next.
[[nodiscard]] std::string in_format(AnswerFormat format, const PlanningResult& result,
                                    const RunBudget& budget,
                                    const std::vector<std::string>& assumptions,
                                    const std::string& next);

}  // namespace ptdp
