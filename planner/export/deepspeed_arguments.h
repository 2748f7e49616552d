// A plan as command-line arguments of Megatron-DeepSpeed's pretrain_gpt.py.
#pragma once

#include <vector>

#include "planner/export/megatron_arguments.h"

namespace ptdp {

/// Returns a plan as arguments. Source: Megatron-DeepSpeed 4efb479d, megatron/arguments.py.
[[nodiscard]] std::vector<MegatronArgument> deepspeed_arguments(const Plan& plan);

/// Returns the stage that ds_config.json says. Without ranks to shard over, stage 1 does what the
/// plan's stage 0 does, and bf16 has fp32 gradients from stage 1 on only.
[[nodiscard]] int deepspeed_stage(const Plan& plan);

}  // namespace ptdp
