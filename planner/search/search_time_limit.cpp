// Tells roughly how long simulations take, without a clock.
#include "planner/search/search_time_limit.h"

#include "cost_model/iteration/simulated_step.h"
#include "cost_model/iteration/step_builder.h"

namespace ptdp {
namespace {

constexpr Seconds kTimeOfFormula(1.5e-5);
constexpr Seconds kTimeOfAction(3e-8);
constexpr Seconds kTimeOfContendedAction(2.5e-7);  // transfers that share links

}  // namespace

Seconds rough_simulation_time(const PlannedJob& job) {
  if (!is_simulated(job.config())) {
    return kTimeOfFormula;
  }
  const bool shares_links = is_contended(step_times(job), step_actions(job));
  if (!shares_links && job.config().schedule == ScheduleKind::kOneFOneB) {
    return kTimeOfFormula;
  }
  return kTimeOfFormula + simulated_actions(job.config(), job.microbatches()) *
                              (shares_links ? kTimeOfContendedAction : kTimeOfAction);
}

void count_simulation(const SearchLimit& limit, const PlannedJob& job) {
  if (limit.counts_work()) {
    limit.count(rough_simulation_time(job));
  }
}

}  // namespace ptdp
