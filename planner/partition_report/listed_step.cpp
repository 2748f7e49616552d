#include "planner/partition_report/listed_step.h"

#include <utility>

#include "cost_model/iteration/simulated_step.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "cost_model/simulation/engine/step_simulator.h"
#include "planner/partition_report/listed_pipeline.h"

namespace ptdp {

ListedStep simulate_listed_step(const LayerSearch& search, const LayerPlan& plan) {
  const Scenario scenario = scenario_of(search);
  ParallelConfig config = plan.config;
  config.layers_per_stage.clear();  // of a list it counts no ends; plan.sizes does
  const PlannedJob job(scenario, config);
  GivenStep given = given_step(job, ListedPipeline(search.list).loads(job, plan.sizes));
  given.times.shares_links = is_contended(given.times, given.actions);
  ListedStep step{
      .schedule = complete(traits_of(config.schedule).generate(given.shape), given.actions),
      .times = std::move(given.times)};
  step.timeline = simulate_step(step.schedule, step.times);
  step.critical_path = critical_path(step.schedule, step.times, step.timeline);
  return step;
}

}  // namespace ptdp
