// The arguments that Megatron-LM and its forks list at the start of a log.
#pragma once

#include <optional>
#include <string>

#include "planner/plan/plan.h"

namespace ptdp {

/// Holds a log's list of arguments against a plan: model, sequence, GPUs, degrees, chunks,
/// microbatch, batch, recomputation, and sharding of the optimizer. Throws Error, naming `place`
/// and the value, where they differ. Returns why the list could not be compared; nullopt where it
/// was, and for an empty list.
[[nodiscard]] std::optional<std::string> check_logged_arguments(const std::string& arguments,
                                                                const Plan& plan,
                                                                const std::string& place);

}  // namespace ptdp
