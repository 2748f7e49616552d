// The time of a configuration that nothing else is costed with: what a search must find.
#pragma once

#include "cost_model/iteration/iteration.h"

namespace ptdp {

inline Seconds time_alone(const Scenario& scenario, const ParallelConfig& config) {
  StepSimulations simulations;
  return iteration_time({scenario, config}, simulations);
}

}  // namespace ptdp
