// `ptdp-plan partition`: layers per stage, for a list of layers or for a model of the catalog.
#pragma once

#include "tools/shared/command_line.h"

namespace ptdp {

/// Adds the flags that only `ptdp-plan partition` has.
void add_partition_flags(boost::program_options::options_description& flags);

/// Throws Error when a flag that only `partition` uses is given; for the commands that would ignore
/// it.
void refuse_partition_flags(const CommandLine& line);

/// Partitions the list or model that the line names, prints the partition, and returns the exit
/// status.
[[nodiscard]] int run_partition(const CommandLine& line);

}  // namespace ptdp
