// Processes that join a meeting over TCP, and strangers that connect to it.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "cost_model/error.h"
#include "runtime/transport/processes/tcp/tcp_rendezvous.h"
#include "tests/runtime/transport/processes/tcp/tcp_processes.h"

namespace ptdp {

/// Joins a meeting in a thread, as a process that leaves at once. The future holds the message that
/// joining threw; "" without one.
inline std::future<std::string> joining(const TcpJobOptions& options) {
  return std::async(std::launch::async, [options]() -> std::string {
    try {
      const auto process = join_tcp_job(options);
      EXPECT_EQ(process->finish(0), 0);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::kRuntimeFault);
      return error.what();
    } catch (const Aborted&) {
      return "aborted";
    }
  });
}

inline TcpJobOptions with_timeout(TcpJobOptions options, double seconds) {
  options.timeout = Seconds(seconds);
  return options;
}

/// Connects to the port as soon as somebody listens there.
inline Descriptor connected_to(std::uint16_t port) {
  while (true) {
    PendingConnection pending(resolve("127.0.0.1", port).addresses.at(0));
    if (pending.look(1000) == PendingConnection::State::kConnected) {
      return pending.take();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

inline void say(const Descriptor& socket, const std::string& text) {
  EXPECT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

/// Returns the hello of a process that is not this one.
inline TcpHello strange_hello(int rank, int size) {
  return {.rank = rank,
          .size = size,
          .version = PTDP_VERSION,
          .job = "test",
          .process = 17,
          .self = {.host = "old", .machine = "m", .port = 1, .addresses = {}}};
}

/// Returns a connection over which `text` was said.
inline TcpConnection guest_with(const std::string& text, std::uint16_t port, PacketPool& pool) {
  TcpConnection guest(connected_to(port), pool);
  guest.send_text(text);
  return guest;
}

/// Returns the next word from the other side; empty if that side hung up.
inline std::string next_word(TcpConnection& connection) {
  while (connection.is_open()) {
    if (std::optional<std::string> text = connection.receive_text(TcpConnection::kMost)) {
      return *text;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return "";
}

}  // namespace ptdp
