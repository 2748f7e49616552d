// How the processes of a job meet over TCP, and learn how to reach each other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/transport/processes/process_engine.h"
#include "runtime/transport/processes/tcp/tcp_connection.h"
#include "runtime/transport/processes/tcp/tcp_hello.h"

namespace ptdp {

/// What a meeting leaves behind.
struct Rendezvous {
  std::string secret;                 ///< Of this job: opens connections between its processes.
  std::vector<MetProcess> processes;  ///< By rank.
  /// Of rank 0 to every other rank, by rank; of another to rank 0.
  std::map<int, TcpConnection> connections;
  Listening listening;
};

/// As join_tcp_job() says. `pool` outlives what it returns.
[[nodiscard]] Rendezvous rendezvous(const TcpJobOptions& options, PacketPool& pool);

[[nodiscard]] ProcessPlace place_in(const Rendezvous& rendezvous, int rank);
/// Where process `to` may be reached from `from`: on its own machine its loopback first.
[[nodiscard]] std::vector<std::string> ways_to(const MetProcess& to, const MetProcess& from);

}  // namespace ptdp
