// Scenarios that several tests share.
#pragma once

#include <string>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/scenario.h"

namespace ptdp {

/// Returns a shipped model on a shipped cluster and stack; `global_batch_size` 0 takes the model's.
inline Scenario shipped_scenario(const std::string& model, const std::string& cluster,
                                 const std::string& stack, std::int64_t global_batch_size = 0) {
  const ModelProfile profile = find_model(model);
  return {.job = {.model_name = profile.name,
                  .model = profile.config,
                  .global_batch_size =
                      global_batch_size == 0 ? profile.global_batch_size : global_batch_size},
          .cluster = find_cluster(cluster),
          .stack = find_stack(stack)};
}

/// Returns the set-up of SC21: Selene with the Megatron-LM of 2021.
inline Scenario selene_2021(const std::string& model, std::int64_t global_batch_size = 0) {
  return shipped_scenario(model, "selene-a100", "megatron-lm-2021", global_batch_size);
}

}  // namespace ptdp
