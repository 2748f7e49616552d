// Nonblocking TCP sockets over IPv4 and IPv6, addresses, and host names.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/text/descriptor.h"

namespace ptdp {

/// A socket that accepts connections.
struct Listening {
  Descriptor socket;
  std::uint16_t port = 0;  ///< Port at which it listens.
  std::string address;     ///< Address of this host at which it listens; empty for all.
};
/// Listens at one address of this host, or at all when `address` is empty. With `port` 0 the system
/// chooses the port. Throws Error(kRuntimeFault) with the port.
[[nodiscard]] Listening listen_on(std::uint16_t port, const std::string& address = {});
/// Accepts the next waiting connection. Returns nullopt, with accept(2)'s `errno`, when there is
/// none.
[[nodiscard]] std::optional<Descriptor> accept_next(const Descriptor& listening);

/// A socket address of a host: an IPv4 or IPv6 address and a port.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;
};
/// Returns an address as text, such as "10.0.0.1" or "fd00::1", without its port. Returns "" for
/// another family.
[[nodiscard]] std::string to_text(const SocketAddress& address);
/// Returns the address of the other side of a connection, as text.
[[nodiscard]] std::string peer_address(const Descriptor& socket);
/// Returns the address of this side of a connection, as text.
[[nodiscard]] std::string local_address(const Descriptor& socket);
/// Returns whether an address or its name belongs to one host alone: "127.0.0.1", "::1" or
/// "localhost".
[[nodiscard]] bool is_loopback(const std::string& address);

/// What a host name or address resolves to.
struct Resolution {
  std::vector<SocketAddress> addresses;  ///< Addresses found; empty on failure.
  std::string fault;                     ///< Why there are none, in the system's words.
};
/// Resolves `host`, a name or an address. A name may take as long as the system's resolver.
[[nodiscard]] Resolution resolve(const std::string& host, std::uint16_t port);

/// How long a thread that waits for sockets sleeps between looks [ms].
inline constexpr int kPollMilliseconds = 50;
/// How long an address may take to answer an attempt to connect.
inline constexpr std::chrono::seconds kConnectPatience{2};

/// A connection that is being made, without blocking.
class PendingConnection {
 public:
  enum class State : std::uint8_t { kUnderWay, kConnected, kFailed };

  /// Begins to connect.
  explicit PendingConnection(const SocketAddress& to);
  /// Returns the state, after waiting at most `milliseconds` for a change.
  [[nodiscard]] State look(int milliseconds);
  /// Returns why the attempt failed, in the system's words.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  /// Returns the socket of a connection in state kConnected.
  [[nodiscard]] Descriptor take() { return std::move(socket_); }

 private:
  Descriptor socket_;
  std::string fault_;
};

/// The result of an attempt to connect: a connection, or why there is none.
struct Attempt {
  Descriptor socket;  ///< The connection; not open after a failure.
  std::string fault;  ///< Why there is none.
};
/// Tries to connect before `end` and within two seconds, because an address may not answer at all.
[[nodiscard]] Attempt try_to_connect(const SocketAddress& to,
                                     std::chrono::steady_clock::time_point end);

/// Paces attempts until `end`, with pauses that grow from 20 ms to a second.
class Retries {
 public:
  explicit Retries(std::chrono::steady_clock::time_point end) : end_(end) {}
  /// Sleeps until the next attempt and returns true. Returns false at once when no time is left for
  /// one.
  [[nodiscard]] bool wait();

 private:
  std::chrono::steady_clock::time_point end_;
  std::chrono::milliseconds pause_{20};
};

/// Returns the addresses of this host, as text, with loopback addresses last. Link-local IPv6
/// addresses are left out.
[[nodiscard]] std::vector<std::string> own_addresses();
/// Returns the address of this host that all hosts mean by `host`, IPv4 before IPv6. Returns ""
/// when there is none. A name may mean the loopback on this host, or another machine that passes
/// connections on.
[[nodiscard]] std::string own_address_of(const std::string& host);
/// Returns the system's name of this host, or "" if it has none.
[[nodiscard]] std::string own_host_name();

}  // namespace ptdp
