#include "runtime/line_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "cost_model/error.h"

namespace ptdp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstPause{20};
constexpr std::chrono::milliseconds kLongestRetryPause{1000};
constexpr int kOneAttempt = 2000;  // [ms] for an address that does not answer
constexpr std::size_t kMostUnsent = std::size_t{1} << 20;

[[noreturn]] void fail(const std::string& what) {
  throw Error("control channel: " + what, ExitStatus::kRuntimeFault);
}

Socket new_socket() {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) {
    fail(std::string("cannot open a socket: ") + std::strerror(errno));
  }
  return socket;
}

void send_at_once(const Socket& socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// Empty where it is connected, else why not.
std::string try_connect(const Socket& socket, const std::string& address, std::uint16_t port,
                        int milliseconds) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) {
    return "no address";
  }
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): as connect(2) takes it
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    return "";
  }
  if (errno != EINPROGRESS) {
    return std::strerror(errno);
  }
  pollfd polled{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&polled, 1, milliseconds) <= 0) {
    return "no answer";
  }
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 ? "" : std::strerror(error);
}

}  // namespace

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Socket::close() noexcept {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

void LineSocket::send(const std::string& line, bool may_be_lost) {
  if (!is_open() || (may_be_lost && unsent_.size() > kMostUnsent)) {
    return;
  }
  unsent_ += line;
  unsent_ += '\n';
  flush();
}

void LineSocket::flush() {
  while (is_open() && !unsent_.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent < 0) {
      // What the other side said before it went is still to be read: no close here.
      return;
    }
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
}

std::vector<std::string> LineSocket::receive() {
  std::vector<std::string> lines;
  std::array<char, 65536> block{};
  while (is_open()) {
    const ssize_t count = ::recv(socket_.get(), block.data(), block.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      break;
    }
    if (count <= 0) {
      close();
      break;
    }
    received_.append(block.data(), static_cast<std::size_t>(count));
    if (received_.size() > kLongestLine && received_.find('\n') == std::string::npos) {
      close();
    }
  }
  std::size_t begin = 0;
  for (std::size_t end = received_.find('\n'); end != std::string::npos;
       end = received_.find('\n', begin)) {
    lines.push_back(received_.substr(begin, end - begin));
    begin = end + 1;
  }
  received_.erase(0, begin);
  return lines;
}

Listening listen_anywhere() {
  Listening listening{.socket = new_socket()};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof address;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): as bind(2) takes it
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listening.socket.get(), any, length) != 0 ||
      ::listen(listening.socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(listening.socket.get(), any, &length) != 0) {
    fail(std::string("cannot listen on a port: ") + std::strerror(errno));
  }
  listening.port = ntohs(address.sin_port);
  return listening;
}

std::optional<Socket> accept_next(const Socket& listening) {
  Socket socket(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) {
    return std::nullopt;
  }
  send_at_once(socket);
  return socket;
}

Socket connect_to(const std::vector<std::string>& addresses, std::uint16_t port, Seconds timeout) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(timeout.value()));
  std::chrono::milliseconds pause = kFirstPause;
  while (true) {
    std::string answers;
    for (const std::string& address : addresses) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      Socket socket = new_socket();
      const std::string answer = try_connect(
          socket, address, port, static_cast<int>(std::clamp<std::int64_t>(left, 1, kOneAttempt)));
      if (answer.empty()) {
        send_at_once(socket);
        return socket;
      }
      answers += fmt::format("{}{}:{}: {}", answers.empty() ? "" : "; ", address, port, answer);
    }
    if (Clock::now() + pause >= end) {
      fail(fmt::format("cannot connect to the process of rank 0 within {:.3g} s ({})",
                       timeout.value(), answers));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestRetryPause);
  }
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) == 0) {
    for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET) {
        sockaddr_in address{};
        std::memcpy(&address, each->ifa_addr, sizeof address);
        std::array<char, INET_ADDRSTRLEN> text{};
        ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
        if (ntohl(address.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET) {
          addresses.emplace_back(text.data());
        }
      }
    }
    ::freeifaddrs(first);
  }
  addresses.emplace_back("127.0.0.1");
  return addresses;
}

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace ptdp
