// Costs a configuration alone: the time that a search must find for it.
#pragma once

#include "cost_model/iteration/iteration.h"

namespace ptdp {

inline Seconds time_alone(const Scenario& scenario, const ParallelConfig& config) {
  StepSimulations simulations;
  return iteration_time({scenario, config}, simulations);
}

}  // namespace ptdp
