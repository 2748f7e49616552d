#include "cost_model/simulation/analysis/sensitivity.h"

#include "cost_model/simulation/engine/step_simulator.h"

namespace ptdp {

std::vector<double> slowdown_elasticities(const CriticalPath& path) {
  Seconds makespan;
  for (const Seconds term : path.terms) {
    makespan += term;
  }
  std::vector<double> shares;
  shares.reserve(path.compute.size());
  for (const Seconds compute : path.compute) {
    shares.push_back(makespan > Seconds(0.0) ? compute / makespan : 0.0);
  }
  return shares;
}

double slowdown_effect(const Schedule& schedule, const StepTimes& times, int rank, double factor) {
  StepTimes slower = times;
  slower.stragglers.push_back({.rank = rank, .factor = factor});
  const Seconds before = simulate_step_times(schedule, times).makespan();
  const Seconds after = simulate_step_times(schedule, slower).makespan();
  return before > Seconds(0.0) ? after / before - 1.0 : 0.0;
}

}  // namespace ptdp
