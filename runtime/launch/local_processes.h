// Starts the processes of a job on this machine, where no launcher does.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/launch/launcher.h"

namespace ptdp {

/// Returns the environment of process `rank` of `size` on this machine, made from that of this
/// process. It has the variables of torch.distributed, with the loopback address as the place of
/// rank 0, and a secret of the job.
[[nodiscard]] Environment environment_of_process(const Environment& environment, int rank, int size,
                                                 std::uint16_t port, const std::string& secret);

/// Runs this program with the arguments `argv` as `size` processes, one for each rank, and waits
/// for all. Processes meet over TCP at a free port of the loopback address. SIGINT, SIGTERM,
/// SIGHUP, SIGUSR1, SIGTSTP and SIGCONT are passed on to all, and all end when this process is
/// killed. Those that run on for 10 s after one has failed get SIGTERM, and SIGKILL 10 s later.
/// Returns the status of the first process that ended with another than 0, or 128 plus the signal
/// that ended it. Throws Error(kRuntimeFault) when a process cannot be started. Call it while there
/// is one thread.
[[nodiscard]] int run_local_processes(int size, const char* const* argv);

}  // namespace ptdp
