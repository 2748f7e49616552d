// Splits the time of measured steps into the terms that a prediction has.
#pragma once

#include <cstddef>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/schedule/schedule.h"
#include "planner/plan/run_terms.h"
#include "runtime/executor/step_record.h"
#include "runtime/run/training_run.h"

namespace ptdp {

/// Returns the pipeline rank of a global rank. Ranks are numbered tensor first, then data, then
/// pipeline.
[[nodiscard]] int pipeline_rank(const ParallelConfig& config, std::size_t rank);

/// Returns how long each step took after the end of the step before [s], and so what ranks do
/// between steps, too. After a pause, the time counts from the start of the step's first rank.
[[nodiscard]] std::vector<double> measured_step_times(const RunRecord& record);

/// Returns the steps from `first` on that timed no operations, which a GPU's other steps are slowed
/// by; all of them where every step did, as on a host.
[[nodiscard]] std::vector<std::size_t> undisturbed_steps(const RunRecord& record,
                                                         std::size_t first);
/// Returns measured_step_times() of undisturbed_steps() [s].
[[nodiscard]] std::vector<double> undisturbed_step_times(const RunRecord& record,
                                                         std::size_t first);

/// Returns the first step, from `warm_up` on, whose actions the record still holds.
[[nodiscard]] std::size_t first_detailed_step(const RunRecord& record, std::size_t warm_up);

/// Returns the terms of what one rank did in a step whose actions are all recorded. Messages, data
/// and tensor parallelism count only as far as the rank computed nothing meanwhile. The all-reduces
/// of the tied embedding and of the norm include the rank's waiting there. There is no bubble term.
/// Where operations were not timed, all compute is bound by memory.
[[nodiscard]] RunTerms rank_terms(const std::vector<Action>& order, const StepRecord& step);

/// Returns the median of each term over `steps`; 0 for no steps.
[[nodiscard]] RunTerms medians(const std::vector<RunTerms>& steps);

/// The terms of the pipeline rank that computes longest and so paces the others, as medians over
/// steps. `stage` is that pipeline rank. In each step the terms are those of its global rank that
/// computes longest. What all ranks wait for at the end of a step counts as long as it takes the
/// last rank to arrive. The bubble is the rest of the step.
struct MeasuredTerms {
  int stage = 0;
  RunTerms terms;
};
/// Measures the terms over the steps from `first_step` on whose operations were timed, or over all
/// of them if none were.
[[nodiscard]] MeasuredTerms measure_terms(const Schedule& schedule, const ParallelConfig& config,
                                          const RunRecord& record, std::size_t first_step);

}  // namespace ptdp
