// Wraps the system's calls for sockets, addresses and host names.
#include "runtime/transport/processes/tcp/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "cost_model/error.h"

namespace ptdp {
namespace {

Descriptor new_stream(int family) {
  return Descriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void set_option(const Descriptor& socket, int level, int option, int value) {
  ::setsockopt(socket.get(), level, option, &value, sizeof value);
}

/// Lets small messages leave at once, and detects a vanished host after a minute when nothing is in
/// flight. With something in flight the system gives up after a quarter of an hour. A shorter limit
/// would also give up a process that is merely stopped.
void prepare_connection(const Descriptor& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

/// Returns `address` as bind(2) and connect(2) take it.
template <class Address>
const sockaddr* as_sockaddr(const Address& address) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the system's way
  return reinterpret_cast<const sockaddr*>(&address);
}

/// Returns the address that stands for all addresses of this host.
SocketAddress any_address(int family, std::uint16_t port) {
  SocketAddress any;
  if (family == AF_INET6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    any.length = sizeof address;
    std::memcpy(&any.storage, &address, sizeof address);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    any.length = sizeof address;
    std::memcpy(&any.storage, &address, sizeof address);
  }
  return any;
}

std::uint16_t port_of(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, &address.storage, sizeof six);
    return ntohs(six.sin6_port);
  }
  sockaddr_in four{};
  std::memcpy(&four, &address.storage, sizeof four);
  return ntohs(four.sin_port);
}

/// Listens at `address`. Returns 0, or the system's error number.
int try_to_listen(SocketAddress address, Listening& listening) {
  const int family = address.storage.ss_family;
  listening.socket = new_stream(family);
  if (!listening.socket.is_open()) {
    return errno;
  }
  set_option(listening.socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (family == AF_INET6) {
    set_option(listening.socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  if (::bind(listening.socket.get(), as_sockaddr(address.storage), address.length) != 0 ||
      ::listen(listening.socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(listening.socket.get(),
                    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the system's way
                    reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    return errno;
  }
  listening.port = port_of(address);
  return 0;
}

}  // namespace

Listening listen_on(std::uint16_t port, const std::string& address) {
  Listening listening{.address = address};
  int fault = EADDRNOTAVAIL;
  if (address.empty()) {
    fault = try_to_listen(any_address(AF_INET6, port), listening);  // It takes IPv4 too.
    if (fault == EAFNOSUPPORT || fault == EADDRNOTAVAIL) {
      fault = try_to_listen(any_address(AF_INET, port), listening);
    }
  } else if (const Resolution found = resolve(address, port); !found.addresses.empty()) {
    fault = try_to_listen(found.addresses.front(), listening);
  }
  if (fault != 0) {
    throw Error("cannot listen on " + (port == 0 ? "any port" : "port " + std::to_string(port)) +
                    ": " + std::strerror(fault),
                ExitStatus::kRuntimeFault);
  }
  return listening;
}

std::optional<Descriptor> accept_next(const Descriptor& listening) {
  Descriptor socket(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) {
    return std::nullopt;
  }
  prepare_connection(socket);
  return socket;
}

std::string to_text(const SocketAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.storage.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &address.storage, sizeof four);
    ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
  } else if (address.storage.ss_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, &address.storage, sizeof six);
    ::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
  }
  std::string result = text.data();
  const std::string mapped = "::ffff:";
  if (result.starts_with(mapped) && result.find('.') != std::string::npos) {
    result.erase(0, mapped.size());
  }
  return result;
}

std::string peer_address(const Descriptor& socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the system's way
  auto* const place = reinterpret_cast<sockaddr*>(&address.storage);
  return ::getpeername(socket.get(), place, &address.length) == 0 ? to_text(address) : "";
}

std::string local_address(const Descriptor& socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the system's way
  auto* const place = reinterpret_cast<sockaddr*>(&address.storage);
  return ::getsockname(socket.get(), place, &address.length) == 0 ? to_text(address) : "";
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

Resolution resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const int fault = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first);
  if (fault != 0) {
    return {.fault = fault == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(fault)};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(first, &::freeaddrinfo);
  Resolution resolution;
  for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
    SocketAddress address{.length = each->ai_addrlen};
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    resolution.addresses.push_back(address);
  }
  return resolution;
}

PendingConnection::PendingConnection(const SocketAddress& to)
    : socket_(new_stream(to.storage.ss_family)) {
  if (!socket_.is_open() ||
      (::connect(socket_.get(), as_sockaddr(to.storage), to.length) != 0 && errno != EINPROGRESS)) {
    fault_ = std::strerror(errno);
  }
}

PendingConnection::State PendingConnection::look(int milliseconds) {
  if (!fault_.empty()) {
    return State::kFailed;
  }
  pollfd polled{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&polled, 1, milliseconds) <= 0) {
    return State::kUnderWay;
  }
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    fault_ = std::strerror(error);
    return State::kFailed;
  }
  prepare_connection(socket_);
  return State::kConnected;
}

Attempt try_to_connect(const SocketAddress& to, std::chrono::steady_clock::time_point end) {
  using Clock = std::chrono::steady_clock;
  end = std::min(end, Clock::now() + kConnectPatience);
  PendingConnection pending(to);
  do {
    switch (pending.look(kPollMilliseconds)) {
      case PendingConnection::State::kConnected:
        return {.socket = pending.take()};
      case PendingConnection::State::kFailed:
        return {.fault = pending.fault()};
      case PendingConnection::State::kUnderWay:
        break;
    }
  } while (Clock::now() < end);
  return {.fault = "no answer"};
}

bool Retries::wait() {
  constexpr std::chrono::milliseconds longest{1000};
  if (std::chrono::steady_clock::now() + pause_ >= end_) {
    return false;
  }
  std::this_thread::sleep_for(pause_);
  pause_ = std::min(2 * pause_, longest);
  return true;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) == 0) {
    for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
      const int family = each->ifa_addr == nullptr ? AF_UNSPEC : each->ifa_addr->sa_family;
      if (family != AF_INET && family != AF_INET6) {
        continue;
      }
      SocketAddress address;
      std::memcpy(&address.storage, each->ifa_addr,
                  family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      std::string text = to_text(address);
      // A link-local address means nothing without the name of its link.
      if (!text.starts_with("fe80:")) {
        addresses.push_back(std::move(text));
      }
    }
    ::freeifaddrs(first);
  }
  if (addresses.empty()) {
    addresses.emplace_back("127.0.0.1");
  }
  std::stable_partition(addresses.begin(), addresses.end(),
                        [](const std::string& address) { return !is_loopback(address); });
  return addresses;
}

std::string own_address_of(const std::string& host) {
  const std::vector<std::string> own = own_addresses();
  std::string address;
  for (const SocketAddress& found : resolve(host, 0).addresses) {
    const std::string each = to_text(found);
    // A host's own name may mean its loopback on the host itself, which other hosts cannot reach.
    const bool is_meant =
        is_loopback(host)
            ? is_loopback(each)
            : !is_loopback(each) && std::find(own.begin(), own.end(), each) != own.end();
    const bool is_better = address.empty() || (address.find(':') != std::string::npos &&
                                               each.find(':') == std::string::npos);
    if (is_meant && is_better) {
      address = each;
    }
  }
  return address;
}

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace ptdp
