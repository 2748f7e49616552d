// `ptdp-plan new-cluster`: the file of a cluster of one's own.
#pragma once

#include "tools/shared/command_line.h"

namespace ptdp {

/// Adds the flags of `new-cluster` that no other command has.
void add_new_cluster_flags(boost::program_options::options_description& flags);

/// Throws Error for a flag of `new-cluster`, in commands that would ignore it.
void refuse_new_cluster_flags(const CommandLine& line);

/// Writes the cluster to --output and says where each part of it comes from; returns the exit
/// status. Throws Error, naming the flag or file, for what cannot be read or contradicts another.
[[nodiscard]] int run_new_cluster(const CommandLine& line);

}  // namespace ptdp
