// Ranks as processes that meet over TCP: started by torchrun, by srun without a PMI, or otherwise.
#pragma once

#include <memory>

#include "runtime/transport/processes/job.h"
#include "runtime/transport/processes/tcp/tcp_job_options.h"

namespace ptdp {

/// Meets the other processes and returns this one as part of the job. A job of one process meets
/// nobody.
///
/// Throws Error(kRuntimeFault), with rank 0's address and port, when the meeting does not succeed
/// within the timeout. Causes: the port is in use, the host's name does not resolve, nobody
/// answers, or a stranger answers. Processes may also not come; rank 0 then names their ranks, and
/// whom it turned away.
///
/// Throws at once when rank 0 turns this process away. Causes: another job size or program version,
/// a rank that another process has, an unknown secret, or a job that is complete. Throws Aborted
/// when rank 0 gave up and reports why.
[[nodiscard]] std::unique_ptr<JobProcess> join_tcp_job(const TcpJobOptions& options);

}  // namespace ptdp
