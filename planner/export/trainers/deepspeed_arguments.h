// A plan as DeepSpeed's configuration and Megatron-DeepSpeed's arguments.
#pragma once

#include <string>
#include <vector>

#include "planner/export/megatron/megatron_arguments.h"

namespace ptdp {

/// Returns a plan as arguments. Source: Megatron-DeepSpeed 4efb479d, megatron/arguments.py.
[[nodiscard]] std::vector<MegatronArgument> deepspeed_arguments(const Plan& plan);

/// Returns a plan as ds_config.json. Source: DeepSpeed 0.19.8, runtime/config.py.
[[nodiscard]] std::string deepspeed_json(const Plan& plan);

/// Returns the stage that ds_config.json says. Without ranks to shard over, stage 1 does what the
/// plan's stage 0 does, and bf16 has fp32 gradients from stage 1 on only.
[[nodiscard]] int deepspeed_stage(const Plan& plan);

}  // namespace ptdp
