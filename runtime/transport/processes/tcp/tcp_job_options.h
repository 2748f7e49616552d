// Who a process of a job over TCP is, and where it meets the others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cost_model/units.h"

namespace ptdp {

/// Place of a process in its job, where rank 0 listens, and how long to wait for the meeting.
struct TcpJobOptions {
  int rank = 0;            ///< Rank of this process.
  int size = 1;            ///< Number of processes in the job.
  std::string address;     ///< Name or address of the host on which rank 0 listens.
  std::uint16_t port = 0;  ///< Port at which rank 0 listens.
  /// Name of the job; it tells the job's processes from others that use the port. It may be empty.
  std::string job = {};
  /// Secret that all processes of the job know and prove to know. When empty, nobody asks for it.
  std::string secret = {};
  /// Time for all processes to meet; nullopt for no limit.
  std::optional<Seconds> timeout = Seconds(120.0);
  Seconds notice_interval{10.0};  ///< Time between calls of `notice`.
  /// Called with what this process waits for.
  std::function<void(const std::string&)> notice = {};
};

}  // namespace ptdp
