// The flags that say what a search may choose from.
#pragma once

#include <cstdint>

#include "planner/search/enumerate.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// The most GPUs, and sequences, that a flag may ask for.
inline constexpr std::int64_t kMostGpus = 100'000'000;
inline constexpr std::int64_t kLargestBatch = 1'000'000'000;

void add_search_flags(boost::program_options::options_description& flags);

/// Reads them; throws Error where they cannot be, or contradict each other.
[[nodiscard]] SearchSpace read_pins(const CommandLine& line);

}  // namespace ptdp
