// Lists per layer and per stage, as Megatron-LM reads them.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace ptdp {

/// Returns a pipeline layout string, such as "Et*7|(t*9|)*2t*7L": E is the embedding, t a layer, m
/// a module that predicts more tokens, L the loss, and | ends a virtual stage.
[[nodiscard]] std::string megatron_layout(const Plan& plan);
/// Returns whether stages differ in their layers, so that only a layout string says them.
[[nodiscard]] bool needs_megatron_layout(const Plan& plan);

/// Returns a list per layer as Python that Megatron-LM evaluates: "([0]*3+[1]*58)".
[[nodiscard]] std::string python_list(const std::vector<int>& values);

}  // namespace ptdp
