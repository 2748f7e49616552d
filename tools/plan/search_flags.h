// The flags that say what a search may choose from.
#pragma once

#include <cstdint>

#include "planner/search/enumerate.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// The most GPUs that a flag may ask for.
inline constexpr std::int64_t kMostGpus = 100'000'000;
/// The most sequences per iteration that a flag may ask for.
inline constexpr std::int64_t kLargestBatch = 1'000'000'000;

/// Adds the flags of the search space, one for every configuration field.
void add_search_flags(boost::program_options::options_description& flags);

/// Declares the value of a flag that takes a configuration, or a part of one: tp=8,pp=64.
[[nodiscard]] boost::program_options::typed_value<std::string>* config_value();

/// Reads the search flags. Throws Error for a value that cannot be read, and for flags that
/// contradict each other.
[[nodiscard]] SearchSpace read_pins(const CommandLine& line);

}  // namespace ptdp
