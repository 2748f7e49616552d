// A TCP connection that carries packets.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "runtime/transport/processes/process_packet.h"
#include "runtime/transport/processes/tcp/socket.h"

namespace ptdp {

/// The text of a packet that carries one.
[[nodiscard]] std::string text_of(const Packet& packet);

/// Never blocks. What cannot be sent waits in memory. A connection that breaks sends nothing any
/// more, but what came before is still to be received; then it is closed.
class TcpConnection {
 public:
  /// As much as a process sends that is not known yet [B].
  static constexpr std::int64_t kMostOfStranger = std::int64_t{1} << 20;
  static constexpr std::int64_t kMost = std::int64_t{1} << 40;

  /// `pool` outlives it.
  TcpConnection(Descriptor socket, PacketPool& pool) : socket_(std::move(socket)), pool_(&pool) {}

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] std::string peer_address() const { return ptdp::peer_address(socket_); }
  /// Whether the other side hung up, and nothing that it sent is still to be received.
  [[nodiscard]] bool was_hung_up() const;
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }
  void close() noexcept;

  /// Sends what can be sent, and keeps the rest.
  void send(Packet packet);
  /// Sends a text without zero bytes, as one packet.
  void send_text(const std::string& text);
  void flush();
  /// The next whole packet that came. Closes the connection where the other side did, or sends what
  /// is no packet or one of more than `most` bytes.
  [[nodiscard]] std::optional<Packet> receive(std::int64_t most);
  /// The text of the next packet; empty where that carries none.
  [[nodiscard]] std::optional<std::string> receive_text(std::int64_t most);

 private:
  [[nodiscard]] bool fill(std::byte* to, std::int64_t size);
  [[nodiscard]] bool take_header(std::int64_t most);

  Descriptor socket_;
  PacketPool* pool_;
  std::deque<Packet> unsent_;
  std::int64_t sent_ = 0;  ///< Of the first of them [B].
  bool is_broken_ = false;
  Packet arriving_;
  std::array<std::byte, Packet::kBlockBytes> header_ = {};
  std::int64_t received_ = 0;  ///< Of the packet that arrives [B].
};

}  // namespace ptdp
