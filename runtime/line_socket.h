// TCP connections that carry lines of text, and never block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/units.h"

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

/// One connection. A line has no newline of its own and is at most kLongestLine bytes.
class LineSocket {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;

  explicit LineSocket(Socket socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }
  /// Queues a line and sends what can be sent. A line that may be lost is not queued behind a
  /// mebibyte of others: the other side does not read.
  void send(const std::string& line, bool may_be_lost);
  void flush();
  /// The whole lines that came. Closes the connection where the other side did, or sends what is
  /// no line.
  [[nodiscard]] std::vector<std::string> receive();
  void close() noexcept { socket_.close(); }

 private:
  Socket socket_;
  std::string unsent_;
  std::string received_;
};

/// Listens on a port of the system's choice, on all addresses of this host.
struct Listening {
  Socket socket;
  std::uint16_t port = 0;
};
/// Throws Error(kRuntimeFault).
[[nodiscard]] Listening listen_anywhere();
/// The next connection, if one waits.
[[nodiscard]] std::optional<Socket> accept_next(const Socket& listening);

/// Tries the addresses ("10.0.0.1", in turn, again and again) until one answers. Throws
/// Error(kRuntimeFault) naming all of them with what they said, once `timeout` has passed.
[[nodiscard]] Socket connect_to(const std::vector<std::string>& addresses, std::uint16_t port,
                                Seconds timeout);

/// IPv4 addresses of this host, 127.0.0.1 last.
[[nodiscard]] std::vector<std::string> own_addresses();
[[nodiscard]] std::string own_host_name();

}  // namespace ptdp
