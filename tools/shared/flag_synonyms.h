// Names of flags that people know from Megatron-LM, DeepSpeed and torchtitan.
#pragma once

#include <boost/program_options.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// Returns the name of the flag that `typed` is, without hyphens in front: the name itself, one
/// with hyphens for underscores, or the flag that has `typed` for a synonym. Returns nullopt if
/// `flags` has none.
[[nodiscard]] std::optional<std::string> known_flag(
    std::string_view typed, const boost::program_options::options_description& flags);

/// Returns the name of a flag that people look for under `typed`, although it means something else.
/// Returns nullopt if `flags` has none.
[[nodiscard]] std::optional<std::string> related_flag(
    std::string_view typed, const boost::program_options::options_description& flags);

/// Returns the arguments with the command's own name for each flag. Throws Error if a flag is
/// given by two names.
[[nodiscard]] std::vector<std::string> with_known_flags(
    const std::vector<std::string>& arguments,
    const boost::program_options::options_description& flags);

/// Returns all synonyms of `flags`, with two hyphens in front.
[[nodiscard]] std::vector<std::string> synonyms_of(
    const boost::program_options::options_description& flags);

/// Returns the part of a help text that lists the synonyms of `flags`; empty if they have none.
[[nodiscard]] std::string synonyms_help(const boost::program_options::options_description& flags);

}  // namespace ptdp
