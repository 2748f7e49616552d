// Where the time of measured steps goes, term by term as it is predicted.
#pragma once

#include <cstddef>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/schedule/schedule.h"
#include "planner/plan/run_terms.h"
#include "runtime/executor/step_record.h"
#include "runtime/run/training_run.h"

namespace ptdp {

/// The place of a rank in the pipeline: ranks are numbered tensor first, then data, then pipeline.
[[nodiscard]] int pipeline_rank(const ParallelConfig& config, std::size_t rank);

/// When each step ended after the one before [s]; where the first rank starts later (there is none
/// before, or a checkpoint was written), from then.
[[nodiscard]] std::vector<double> measured_step_times(const RunRecord& record);

/// Steps of which the record holds the actions, those before `warm_up` left out: from this one on.
[[nodiscard]] std::size_t first_detailed_step(const RunRecord& record, std::size_t warm_up);

/// What one rank did in a step with all its actions: messages, data and tensor parallelism as far
/// as it computed nothing meanwhile, the all-reduces of the tied embedding and of the norm with
/// what it waits there. No bubble.
[[nodiscard]] RunTerms rank_terms(const std::vector<Action>& order, const StepRecord& step);

/// The median of each term. 0 for no steps.
[[nodiscard]] RunTerms medians(const std::vector<RunTerms>& steps);

/// The medians over the steps from `first_step` on, of the stage whose ranks compute longest and
/// so pace the others: in each step, of that rank of it which computes longest. What all wait for
/// at the end of a step counts as long as the last to come takes for it; the bubble is what is left
/// of the step.
struct MeasuredTerms {
  int stage = 0;
  RunTerms terms;
};
[[nodiscard]] MeasuredTerms measure_terms(const Schedule& schedule, const ParallelConfig& config,
                                          const RunRecord& record, std::size_t first_step);

}  // namespace ptdp
