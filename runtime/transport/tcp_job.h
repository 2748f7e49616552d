// Ranks as processes that meet over TCP: those of torchrun, of srun without a PMI, or anybody's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cost_model/units.h"
#include "runtime/transport/job.h"

namespace ptdp {

struct TcpJobOptions {
  int rank = 0;
  int size = 1;
  std::string address;     ///< Name or address of the host of rank 0, which listens there
  std::uint16_t port = 0;  ///< at this port.
  /// What tells processes of this job from those of others that use the port; may be empty.
  std::string job = {};
  /// What all processes of the job know, and prove to know; empty: nobody asks.
  std::string secret = {};
  std::optional<Seconds> timeout = Seconds(120.0);  ///< For all processes to meet; none: for ever.
  Seconds notice_interval{10.0};                    ///< Of `notice`.
  /// Told what this process waits for.
  std::function<void(const std::string&)> notice = {};
};

/// Meets the others; a job of one process meets nobody. Throws Error(kRuntimeFault), naming rank
/// 0's address and port, where the meeting does not succeed within the timeout: the port is in use,
/// the host's name means nothing, nobody answers, or somebody who is no process of the job does,
/// processes do not come (rank 0 names their ranks, and whom it turned away). Throws at once where
/// rank 0 turns this process away: it has another size of the job or version of this program,
/// another process has its rank, it does not know the secret, or the job is complete without it.
/// Throws Aborted where rank 0 gave up and says why.
[[nodiscard]] std::unique_ptr<JobProcess> join_tcp_job(const TcpJobOptions& options);

}  // namespace ptdp
