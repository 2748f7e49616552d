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
  std::uint16_t port = 0;  ///< at this port, on all its addresses.
  /// What tells processes of this job from those of others that use the port; may be empty.
  std::string job = {};
  std::optional<Seconds> timeout = Seconds(120.0);  ///< For all processes to meet; none: for ever.
  Seconds notice_interval{10.0};                    ///< Of `notice`.
  /// Told what this process waits for.
  std::function<void(const std::string&)> notice = {};
};

/// Meets the others; a job of one process meets nobody. Throws Error(kRuntimeFault), naming rank
/// 0's address and port, where the meeting does not succeed within the timeout: the port is in use,
/// the host's name means nothing, nobody answers, or somebody who is no process of the job does,
/// processes do not come (rank 0 names their ranks). Throws at once where processes disagree about
/// the size of the job or the version of this program, or two have one rank, and where the job is
/// complete without this process. Throws Aborted where rank 0 gave up and says why.
[[nodiscard]] std::unique_ptr<JobProcess> join_tcp_job(const TcpJobOptions& options);

}  // namespace ptdp
