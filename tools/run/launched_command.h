// Runs a command that a launcher may have started once for every rank.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/faults/watchdog.h"
#include "runtime/launch/launcher.h"
#include "runtime/transport/processes/job.h"

namespace ptdp {

/// How the processes of a run meet. With kThreads there is one process, whose threads are the
/// ranks.
enum class Transport { kThreads, kMpi, kTcp };

/// Returns the transport that `asked` (--transport) names, or else the one that the launcher
/// implies:
/// - MPI under mpirun, mpiexec, and srun with a PMI;
/// - TCP under torchrun and srun without a PMI, and in a build without MPI, if the environment
/// names rank 0's host;
/// - threads without a launcher, and when torchrun or srun started one process.
/// Throws Error when several processes would each run all ranks as threads. Also throws Error for
/// MPI in a build without it, and when processes have no way to meet.
[[nodiscard]] Transport choose_transport(const Launcher& launcher, std::optional<Transport> asked,
                                         bool is_built_with_mpi);

/// Returns the value of `--transport threads|mpi|tcp` among the arguments. Returns nullopt when the
/// flag is missing or is nccl, which says how tensors travel and not how processes meet. Returns
/// nullopt for an unknown transport, too: the command itself refuses that.
[[nodiscard]] std::optional<Transport> transport_flag(int argc, const char* const* argv);

/// Runs a command as run_command() does. `command` receives this process of the job, or null when
/// ranks are threads. With several processes, one process reports each fault and all return its
/// status.
[[nodiscard]] int run_launched_command(const std::string& program, int argc,
                                       const char* const* argv,
                                       const std::function<int(JobProcess* process)>& command);

/// Returns the deadline rule that `--deadline` among the arguments sets for the start and end of a
/// job. Returns the default rule when the flag is missing or its value is bad: the command itself
/// refuses a bad value.
[[nodiscard]] DeadlineRule deadline_flag(int argc, const char* const* argv);

}  // namespace ptdp
