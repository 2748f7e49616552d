// How the processes of a job meet over TCP, and learn how to reach each other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/transport/processes/process_engine.h"
#include "runtime/transport/processes/tcp/tcp_connection.h"
#include "runtime/transport/processes/tcp/tcp_hello.h"

namespace ptdp {

/// The result of a meeting.
struct Rendezvous {
  std::string secret;  ///< Secret that opens connections between processes of this job.
  std::vector<MetProcess> processes;  ///< Processes by rank.
  /// Connections by rank: on rank 0 to every other rank, elsewhere to rank 0.
  std::map<int, TcpConnection> connections;
  Listening listening;  ///< Where this process listens.
};

/// Meets the other processes of the job. Throws as join_tcp_job() does. `pool` must outlive the
/// result.
[[nodiscard]] Rendezvous rendezvous(const TcpJobOptions& options, PacketPool& pool);

/// Returns the place in the job of rank `rank`.
[[nodiscard]] ProcessPlace place_in(const Rendezvous& rendezvous, int rank);
/// Returns the addresses by which `from` may reach `to`: on the same machine loopback first,
/// between machines no loopback.
[[nodiscard]] std::vector<std::string> ways_to(const MetProcess& to, const MetProcess& from);

}  // namespace ptdp
