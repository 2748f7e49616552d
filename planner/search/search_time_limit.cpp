// Tells roughly how long simulations take, without a clock.
#include "planner/search/search_time_limit.h"

#include "cost_model/iteration/step_builder.h"

namespace ptdp {
namespace {

constexpr Seconds kTimeOfFormula(1.5e-5);
constexpr Seconds kTimeOfAction(3e-8);
constexpr Seconds kTimeOfContendedAction(2.5e-7);  // transfers that share links

Seconds time_of(const PlannedJob& job, Seconds action) {
  return kTimeOfFormula + simulated_actions(job.config(), job.microbatches()) * action;
}

}  // namespace

Seconds rough_simulation_time(const PlannedJob& job) {
  if (!is_simulated(job.config())) {
    return kTimeOfFormula;
  }
  return is_contended(step_times(job), step_actions(job))   ? time_of(job, kTimeOfContendedAction)
         : job.config().schedule == ScheduleKind::kOneFOneB ? kTimeOfFormula
                                                            : time_of(job, kTimeOfAction);
}

void count_bound(const SearchLimit& limit, const PlannedJob& job, const StepBound& found) {
  const bool is_formula = found.is_exact && (!is_simulated(job.config()) ||
                                             job.config().schedule == ScheduleKind::kOneFOneB);
  limit.count(is_formula ? kTimeOfFormula : time_of(job, kTimeOfAction));
}

void count_contended(const SearchLimit& limit, const PlannedJob& job) {
  limit.count(time_of(job, kTimeOfContendedAction) - time_of(job, kTimeOfAction));
}

}  // namespace ptdp
