// The flags of ptdp-plan, and what --help says of them.
#pragma once

#include <boost/program_options.hpp>
#include <optional>
#include <string>

#include "tools/shared/command_line.h"

namespace ptdp {

/// Returns all flags of ptdp-plan, in groups with a title each.
[[nodiscard]] boost::program_options::options_description plan_flags();

/// Returns the answer to --help or to --version. --help has the flags that most people need, those
/// of a command, or the one that is named; with `all` it has `flags`. Returns nullopt when neither
/// is given. Throws Error for a name that no flag has.
[[nodiscard]] std::optional<std::string> plan_help(
    const CommandLine& line, const std::string& program,
    const boost::program_options::options_description& flags);

}  // namespace ptdp
