#include "runtime/faults/line_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
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

/// Connected, or why not.
struct Attempt {
  Descriptor socket;
  std::string answer;
};

Attempt try_connect(const std::string& address, std::uint16_t port, int milliseconds) {
  const Resolution found = resolve(address, port);
  if (found.addresses.empty()) {
    return {.answer = found.fault};
  }
  PendingConnection pending(found.addresses.front());
  switch (pending.look(milliseconds)) {
    case PendingConnection::State::kConnected:
      return {.socket = pending.take()};
    case PendingConnection::State::kFailed:
      return {.answer = pending.fault()};
    case PendingConnection::State::kUnderWay:
      break;
  }
  return {.answer = "no answer"};
}

}  // namespace

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

Descriptor connect_to(const std::vector<std::string>& addresses, std::uint16_t port,
                      Seconds timeout) {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(timeout.value()));
  std::chrono::milliseconds pause = kFirstPause;
  while (true) {
    std::string answers;
    for (const std::string& address : addresses) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      Attempt attempt = try_connect(
          address, port, static_cast<int>(std::clamp<std::int64_t>(left, 1, kOneAttempt)));
      if (attempt.socket.is_open()) {
        return std::move(attempt.socket);
      }
      answers +=
          fmt::format("{}{}:{}: {}", answers.empty() ? "" : "; ", address, port, attempt.answer);
    }
    if (Clock::now() + pause >= end) {
      fail(fmt::format("cannot connect to the process of rank 0 within {:.3g} s ({})",
                       timeout.value(), answers));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestRetryPause);
  }
}

}  // namespace ptdp
