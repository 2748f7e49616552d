// A plan as nanotron's configuration.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace ptdp {

/// Returns the layers that nanotron, left alone, puts on each pipeline rank. It goes on to the next
/// rank when the products so far exceed the rank's share. Source: nanotron 0.4, models/base.py
/// build_model() and models/llama.py get_block_compute_costs().
[[nodiscard]] std::vector<int> nanotron_layers(const Plan& plan);
/// Returns the layers that nanotron puts on each of `pp` ranks of a pipeline, as for a plan.
[[nodiscard]] std::vector<int> nanotron_layers(const TransformerConfig& model, int tp, int pp);
/// Returns a plan as config.yaml. Source: nanotron 0.4, config/config.py.
[[nodiscard]] std::string nanotron_yaml(const Plan& plan);

}  // namespace ptdp
