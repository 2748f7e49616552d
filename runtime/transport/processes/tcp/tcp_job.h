// Ranks as processes that meet over TCP: those of torchrun, of srun without a PMI, or anybody's.
#pragma once

#include <memory>

#include "runtime/transport/processes/job.h"
#include "runtime/transport/processes/tcp/tcp_job_options.h"

namespace ptdp {

/// Meets the others; a job of one process meets nobody. Throws Error(kRuntimeFault), naming rank
/// 0's address and port, where the meeting does not succeed within the timeout: the port is in use,
/// the host's name means nothing, nobody answers, or somebody who is no process of the job does,
/// processes do not come (rank 0 names their ranks, and whom it turned away). Throws at once where
/// rank 0 turns this process away: it has another size of the job or version of this program,
/// another process has its rank, it does not know the secret, or the job is complete without it.
/// Throws Aborted where rank 0 gave up and says why.
[[nodiscard]] std::unique_ptr<JobProcess> join_tcp_job(const TcpJobOptions& options);

}  // namespace ptdp
