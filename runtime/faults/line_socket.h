// TCP connections that carry lines of text, and never block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost_model/units.h"
#include "runtime/transport/processes/tcp/socket.h"

namespace ptdp {

/// One connection. A line has no newline of its own and is at most kLongestLine bytes.
class LineSocket {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;

  explicit LineSocket(Descriptor socket) : socket_(std::move(socket)) {}

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
  Descriptor socket_;
  std::string unsent_;
  std::string received_;
};

/// Tries the addresses ("10.0.0.1", "fd00::1", in turn, again and again) until one answers. Throws
/// Error(kRuntimeFault) naming all of them with what they said, once `timeout` has passed.
[[nodiscard]] Descriptor connect_to(const std::vector<std::string>& addresses, std::uint16_t port,
                                    Seconds timeout);

}  // namespace ptdp
