// The files that Accelerate starts from.
#pragma once

#include <string>

#include "planner/plan/plan.h"

namespace ptdp {

/// Returns the configuration of `accelerate launch`. Source: accelerate 1.15,
/// commands/config/config_args.py, commands/launch.py and parallelism_config.py.
[[nodiscard]] std::string accelerate_yaml(const Plan& plan);
/// Returns the batch as kAccelerateTrain reads it.
[[nodiscard]] std::string accelerate_batch(const Plan& plan);
/// Returns a bash script that starts `accelerate launch` on every node, alone or under Slurm.
[[nodiscard]] std::string accelerate_launch(const Plan& plan);

}  // namespace ptdp
