// A TCP connection that carries packets.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "runtime/transport/processes/process_packet.h"
#include "runtime/transport/processes/tcp/socket.h"

namespace ptdp {

/// Returns the text in a packet of kind kText, up to its first zero byte.
[[nodiscard]] std::string text_of(const Packet& packet);

/// A TCP connection that carries packets and never blocks. What cannot be sent yet waits in memory.
/// A broken connection sends nothing more, but what arrived before is still received. The
/// connection is closed after that.
class TcpConnection {
 public:
  /// Largest packet that an unknown process may send [B].
  static constexpr std::int64_t kMostOfStranger = std::int64_t{1} << 20;
  /// Largest packet that a process of the job may send [B].
  static constexpr std::int64_t kMost = std::int64_t{1} << 40;

  /// Takes over a connected socket. `pool` must outlive the connection.
  TcpConnection(Descriptor socket, PacketPool& pool) : socket_(std::move(socket)), pool_(&pool) {}

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  /// Returns the socket's file descriptor.
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] std::string peer_address() const { return ptdp::peer_address(socket_); }
  /// Returns whether the other side hung up and everything that it sent has been received.
  [[nodiscard]] bool was_hung_up() const;
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }
  /// Closes the connection and drops what was not sent.
  void close() noexcept;

  /// Sends as much of `packet` as possible and keeps the rest. Drops it when the connection is
  /// broken.
  void send(Packet packet);
  /// Sends a text without zero bytes as one packet of kind kText.
  void send_text(const std::string& text);
  /// Sends as much as possible of what was kept.
  void flush();
  /// Returns the next whole packet that arrived, or nullopt. Closes the connection when the other
  /// side closed it, or sent something that is no packet or exceeds `most` bytes.
  [[nodiscard]] std::optional<Packet> receive(std::int64_t most);
  /// Returns the text of the next packet that arrived, or nullopt. A packet of another kind gives
  /// "".
  [[nodiscard]] std::optional<std::string> receive_text(std::int64_t most);

 private:
  /// Receives until `size` bytes at `to` are filled; returns false when more have yet to arrive.
  [[nodiscard]] bool fill(std::byte* to, std::int64_t size);
  /// Takes memory for the packet whose header arrived; closes the connection if the header is
  /// invalid.
  [[nodiscard]] bool take_header(std::int64_t most);

  Descriptor socket_;
  PacketPool* pool_;
  std::deque<Packet> unsent_;  ///< Packets to send; the first may be partly sent.
  std::int64_t sent_ = 0;      ///< Bytes of the first unsent packet that were sent [B].
  bool is_broken_ = false;     ///< Sending failed; what arrived is still received.
  Packet arriving_;            ///< Memory of the packet that is arriving.
  std::array<std::byte, Packet::kBlockBytes> header_ = {};
  /// Bytes received of the packet that is arriving, with its header [B].
  std::int64_t received_ = 0;
};

}  // namespace ptdp
