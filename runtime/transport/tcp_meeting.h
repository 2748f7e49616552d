// How the processes of a job meet over TCP, and learn how to reach each other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/transport/process_engine.h"
#include "runtime/transport/tcp_connection.h"
#include "runtime/transport/tcp_job.h"

namespace ptdp {

/// A process as the others know it.
struct MetProcess {
  std::string host;
  /// Equal for processes of one machine: the host's name, and what it was given when it booted.
  std::string machine;
  std::uint16_t port = 0;              ///< Where it listens,
  std::vector<std::string> addresses;  ///< at these, the likeliest first.
};

/// What a meeting leaves behind.
struct Meeting {
  std::string secret;                 ///< Of this job: opens connections between its processes.
  std::vector<MetProcess> processes;  ///< By rank.
  /// Of rank 0 to every other rank, by rank; of another to rank 0.
  std::map<int, TcpConnection> connections;
  Listening listening;
};

/// As join_tcp_job() says. `pool` outlives what it returns.
[[nodiscard]] Meeting meet(const TcpJobOptions& options, PacketPool& pool);

[[nodiscard]] ProcessPlace place_in(const Meeting& meeting, int rank);
/// Where process `to` may be reached from `from`: on its own machine its loopback first.
[[nodiscard]] std::vector<std::string> ways_to(const MetProcess& to, const MetProcess& from);

// --- what processes say to each other ---

inline constexpr const char* kWelcome = "welcome";
/// A process that wants to join.
struct TcpHello {
  int rank = 0;
  int size = 1;
  std::string version;
  std::string job;
  int process = 0;  ///< Its number on its host.
  MetProcess self;
};
[[nodiscard]] std::string to_text(const TcpHello& hello);
[[nodiscard]] std::optional<TcpHello> parse_hello_text(const std::string& text);
/// An answer: the process that it is for says why.
[[nodiscard]] std::string refusal(const std::string& why);

}  // namespace ptdp
