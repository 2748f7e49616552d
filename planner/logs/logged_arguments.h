// The arguments that Megatron-LM and its forks list at the start of a log.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "planner/plan/plan.h"

namespace ptdp {

/// Returns the start of a log that lists its arguments; nullopt for another log.
[[nodiscard]] std::optional<std::string> logged_arguments(const std::filesystem::path& log);

/// Throws Error, naming the log and the value, if a log lists arguments that are not the plan's:
/// degrees, microbatch or batch. Does nothing for a log that lists none.
void check_logged_arguments(const std::filesystem::path& log, const Plan& plan);

}  // namespace ptdp
