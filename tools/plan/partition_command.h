// `ptdp-plan partition`: layers per stage, for a list of layers or for a model of the catalog.
#pragma once

#include "tools/shared/command_line.h"

namespace ptdp {

/// The flags that only this command has.
void add_partition_flags(boost::program_options::options_description& flags);

/// Throws Error for one of these flags: for the commands that would ignore them.
void refuse_partition_flags(const CommandLine& line);

/// Prints the partition; returns the exit status.
[[nodiscard]] int run_partition(const CommandLine& line);

}  // namespace ptdp
