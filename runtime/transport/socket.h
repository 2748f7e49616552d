// TCP sockets that never block, over IPv4 and IPv6.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ptdp {

/// Owns a descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  void close() noexcept;

 private:
  int descriptor_ = -1;
};

/// Listens on all addresses of this host.
struct Listening {
  Socket socket;
  std::uint16_t port = 0;
};
/// `port` 0: one of the system's choice. Throws Error(kRuntimeFault) with the port.
[[nodiscard]] Listening listen_on(std::uint16_t port);
/// The next connection, if one waits.
[[nodiscard]] std::optional<Socket> accept_next(const Socket& listening);

/// Where a socket of a host is reached.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;
};
/// "10.0.0.1", "fd00::1"; empty where it is neither.
[[nodiscard]] std::string to_text(const SocketAddress& address);
/// Of the other side of a connection.
[[nodiscard]] std::string peer_address(const Socket& socket);
[[nodiscard]] bool is_loopback(const std::string& address);

/// What a name or an address stands for; empty with `fault`, in the system's words.
struct Resolution {
  std::vector<SocketAddress> addresses;
  std::string fault;
};
/// May take as long as the system's resolver does, where `host` is a name.
[[nodiscard]] Resolution resolve(const std::string& host, std::uint16_t port);

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
  [[nodiscard]] Socket take() { return std::move(socket_); }

 private:
  Socket socket_;
  std::string fault_;
};

/// Addresses of this host, those of its loopback last.
[[nodiscard]] std::vector<std::string> own_addresses();
[[nodiscard]] std::string own_host_name();

}  // namespace ptdp
