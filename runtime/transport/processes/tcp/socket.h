// TCP sockets that never block, over IPv4 and IPv6.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/text/descriptor.h"

namespace ptdp {

/// A socket that takes connections.
struct Listening {
  Descriptor socket;
  std::uint16_t port = 0;
  std::string address;  ///< Of this host; empty: all.
};
/// Listens at one address of this host, or where `address` is empty at all. `port` 0: one of the
/// system's choice. Throws Error(kRuntimeFault) with the port.
[[nodiscard]] Listening listen_on(std::uint16_t port, const std::string& address = {});
/// The next connection, if one waits; else `errno` is accept(2)'s.
[[nodiscard]] std::optional<Descriptor> accept_next(const Descriptor& listening);

/// Where a socket of a host is reached.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;
};
/// "10.0.0.1", "fd00::1"; empty where it is neither.
[[nodiscard]] std::string to_text(const SocketAddress& address);
/// The address of the other side of a connection.
[[nodiscard]] std::string peer_address(const Descriptor& socket);
/// The address of this side of a connection.
[[nodiscard]] std::string local_address(const Descriptor& socket);
/// Whether an address, or the name of one, is of this host alone: "127.0.0.1", "::1", "localhost".
[[nodiscard]] bool is_loopback(const std::string& address);

/// What a name or an address stands for; empty with `fault`, in the system's words.
struct Resolution {
  std::vector<SocketAddress> addresses;
  std::string fault;
};
/// May take as long as the system's resolver does, where `host` is a name.
[[nodiscard]] Resolution resolve(const std::string& host, std::uint16_t port);

/// Who waits for sockets looks so often,
inline constexpr int kPollMilliseconds = 50;
/// and waits so long for an address to answer.
inline constexpr std::chrono::seconds kConnectPatience{2};

/// A connection that is being made.
class PendingConnection {
 public:
  enum class State : std::uint8_t { kUnderWay, kConnected, kFailed };

  explicit PendingConnection(const SocketAddress& to);
  /// Waits for a change so long at most.
  [[nodiscard]] State look(int milliseconds);
  /// Why it failed, in the system's words.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  /// Once it is connected.
  [[nodiscard]] Descriptor take() { return std::move(socket_); }

 private:
  Descriptor socket_;
  std::string fault_;
};

/// What came of an attempt to connect: a connection, or why there is none.
struct Attempt {
  Descriptor socket;
  std::string fault;
};
/// Connects before `end` and within two seconds, for an address may not answer at all.
[[nodiscard]] Attempt try_to_connect(const SocketAddress& to,
                                     std::chrono::steady_clock::time_point end);

/// Attempts until `end`, with pauses between them that grow from 20 ms to a second.
class Retries {
 public:
  explicit Retries(std::chrono::steady_clock::time_point end) : end_(end) {}
  /// Sleeps until the next attempt; false at once where there is no time for one.
  [[nodiscard]] bool wait();

 private:
  std::chrono::steady_clock::time_point end_;
  std::chrono::milliseconds pause_{20};
};

/// Addresses of this host, those of its loopback last.
[[nodiscard]] std::vector<std::string> own_addresses();
/// The address of this host that all hosts mean by `host`, IPv4 before IPv6. Empty where there is
/// none: a name may mean the loopback here, or another machine that passes connections on.
[[nodiscard]] std::string own_address_of(const std::string& host);
[[nodiscard]] std::string own_host_name();

}  // namespace ptdp
