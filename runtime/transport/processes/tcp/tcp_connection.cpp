// Sends and receives packets piece by piece, as far as a socket allows without blocking.
#include "runtime/transport/processes/tcp/tcp_connection.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace ptdp {
namespace {

/// Returns the bytes of a packet as it is sent: its first block and its elements [B].
std::int64_t bytes_on_wire(const Packet& packet) {
  return Packet::kBlockBytes + packet.elements().bytes();
}

/// Returns whether a header is one of ours, with elements of at most `most` bytes.
bool is_sound(const PacketHeader& header, std::int64_t most) {
  return header.mark == PacketHeader::kMark && header.kind <= PacketHeader::Kind::kText &&
         header.type <= DataType::kInt32 && header.size >= 0 &&
         header.size <= most / bytes_of(header.type);
}

}  // namespace

std::string text_of(const Packet& packet) {
  const Buffer elements = packet.elements();
  const auto* const text = static_cast<const char*>(elements.data);
  return {text, ::strnlen(text, static_cast<std::size_t>(elements.bytes()))};
}

void TcpConnection::close() noexcept {
  socket_.close();
  unsent_.clear();
}

bool TcpConnection::was_hung_up() const {
  char byte = 0;
  return ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void TcpConnection::send(Packet packet) {
  if (!is_open() || is_broken_) {
    pool_->give_back(std::move(packet));
    return;
  }
  unsent_.push_back(std::move(packet));
  if (unsent_.size() == 1) {
    flush();
  }
}

void TcpConnection::send_text(const std::string& text) {
  constexpr std::size_t element = sizeof(std::int32_t);
  // The element count includes at least one zero byte.
  const auto size = static_cast<std::int64_t>(text.size() / element + 1);
  Packet packet = pool_->take(Packet::blocks_for(size * static_cast<std::int64_t>(element)));
  packet.header() = {.size = size, .kind = PacketHeader::Kind::kText, .type = DataType::kInt32};
  const Buffer elements = packet.elements();
  std::memset(elements.data, 0, static_cast<std::size_t>(elements.bytes()));
  std::memcpy(elements.data, text.data(), text.size());
  send(std::move(packet));
}

void TcpConnection::flush() {
  while (is_open() && !unsent_.empty()) {
    const std::int64_t size = bytes_on_wire(unsent_.front());
    const ssize_t count =
        ::send(socket_.get(), static_cast<const std::byte*>(unsent_.front().memory()) + sent_,
               static_cast<std::size_t>(size - sent_), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS) {
        is_broken_ = true;  // What the other side sent before it went is still to be read.
        unsent_.clear();
      }
      return;
    }
    sent_ += count;
    if (sent_ == size) {
      sent_ = 0;
      pool_->give_back(std::move(unsent_.front()));
      unsent_.pop_front();
    }
  }
}

/// Receives until `size` bytes at `to` are filled. Returns false when more have yet to arrive, or
/// when the connection ended.
bool TcpConnection::fill(std::byte* to, std::int64_t size) {
  while (size > 0) {
    const ssize_t count = ::recv(socket_.get(), to, static_cast<std::size_t>(size), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return false;
    }
    if (count <= 0) {
      close();
      return false;
    }
    received_ += count;
    to += count;
    size -= count;
  }
  return true;
}

/// Takes memory for the packet whose header arrived. Returns false, and closes the connection, if
/// the header is invalid.
bool TcpConnection::take_header(std::int64_t most) {
  PacketHeader header;
  std::memcpy(&header, header_.data(), sizeof header);
  if (!is_sound(header, most)) {
    close();
    return false;
  }
  arriving_ = pool_->take(Packet::blocks_for(header.size * bytes_of(header.type)));
  arriving_.header() = header;
  return true;
}

std::optional<Packet> TcpConnection::receive(std::int64_t most) {
  if (!is_open()) {
    return std::nullopt;
  }
  if (received_ < Packet::kBlockBytes &&
      !(fill(header_.data() + received_, Packet::kBlockBytes - received_) && take_header(most))) {
    return std::nullopt;
  }
  if (!fill(static_cast<std::byte*>(arriving_.memory()) + received_,
            bytes_on_wire(arriving_) - received_)) {
    return std::nullopt;
  }
  received_ = 0;
  return std::move(arriving_);
}

std::optional<std::string> TcpConnection::receive_text(std::int64_t most) {
  std::optional<Packet> packet = receive(most);
  if (!packet) {
    return std::nullopt;
  }
  std::string text = packet->header().kind == PacketHeader::Kind::kText ? text_of(*packet) : "";
  pool_->give_back(std::move(*packet));
  return text;
}

}  // namespace ptdp
