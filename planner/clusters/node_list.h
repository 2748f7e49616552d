// The nodes of a Slurm job, as its environment names them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// Nodes and GPUs of a job.
struct SlurmJob {
  int nodes = 0;
  std::optional<int> gpus_per_node = {};  ///< Nullopt: Slurm does not say.
};

/// Returns the hosts of a list like "node[001-003,007],login1": node001, node002, node003, node007
/// and login1. Throws Error at `place` for a list that Slurm would not write.
[[nodiscard]] std::vector<std::string> expand_node_list(std::string_view list,
                                                        const std::string& place);

/// Returns the value of a variable of the environment; nullopt: it is not set.
using EnvironmentReader = std::function<std::optional<std::string>(const std::string&)>;

/// Reads the job that SLURM_JOB_NODELIST, SLURM_JOB_NUM_NODES and SLURM_GPUS_ON_NODE describe.
/// Throws Error, naming the variable, outside a job and for a value that Slurm would not write.
[[nodiscard]] SlurmJob read_slurm_job(const EnvironmentReader& environment);

}  // namespace ptdp
