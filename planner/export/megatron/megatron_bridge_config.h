// A plan as values of Megatron-Bridge's ConfigContainer.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace ptdp {

/// One value of a ConfigContainer, and the part of the plan that it says.
struct BridgeSetting {
  std::string part;   ///< What the plan says: "pipeline parallel".
  std::string path;   ///< "model.pipeline_model_parallel_size".
  std::string value;  ///< As Python spells it.
};

/// Returns all values that the plan decides, each path once. Source: Megatron-Bridge 0.6.2,
/// training/config.py, training/comm_overlap.py, models/gpt_provider.py.
[[nodiscard]] std::vector<BridgeSetting> bridge_settings(const Plan& plan);
/// Returns a Python file that makes a ConfigContainer of these values, for 20 steps on made-up
/// data, and trains by it. It refuses a Bridge that lacks one of them.
[[nodiscard]] std::string bridge_python_file(const Plan& plan);

}  // namespace ptdp
