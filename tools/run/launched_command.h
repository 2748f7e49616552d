// A command that a launcher may have started once for every rank.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/faults/watchdog.h"
#include "runtime/launch/launcher.h"
#include "runtime/transport/processes/job.h"

namespace ptdp {

/// How the processes of a run meet; with threads there is one.
enum class Transport { kThreads, kMpi, kTcp };

/// What `--transport` says, else what the launcher means: MPI under mpirun, mpiexec and srun with a
/// PMI, TCP under torchrun and srun without one, and where this program was built without MPI, as
/// long as the environment tells the host of rank 0; threads without a launcher, and where torchrun
/// or srun started one process. Throws Error where the process would be one of several that run the
/// same ranks: threads under a launcher of several processes, MPI that this program was built
/// without.
[[nodiscard]] Transport choose_transport(const Launcher& launcher, std::optional<Transport> asked,
                                         bool is_built_with_mpi);

/// The value of `--transport threads|mpi|tcp` among the arguments; none where it is missing, says
/// how tensors travel and not how processes meet (nccl), or is no transport, which the command
/// itself complains about.
[[nodiscard]] std::optional<Transport> transport_flag(int argc, const char* const* argv);

/// Runs a command as run_command() does; `command` is given this process of the job, or null where
/// ranks are threads. Of several processes one speaks of each fault, and all return its status.
[[nodiscard]] int run_launched_command(const std::string& program, int argc,
                                       const char* const* argv,
                                       const std::function<int(JobProcess* process)>& command);

/// What `--deadline` among the arguments means for the start and the end of a job; as without the
/// flag where its value is none, which the command itself complains about.
[[nodiscard]] DeadlineRule deadline_flag(int argc, const char* const* argv);

}  // namespace ptdp
