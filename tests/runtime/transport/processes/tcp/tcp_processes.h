// The processes of a job over TCP, as threads of a test.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/transport/processes/tcp/socket.h"
#include "runtime/transport/processes/tcp/tcp_job.h"

namespace ptdp {

/// Returns a port at which nobody listens.
inline std::uint16_t free_port() {
  return listen_on(0).port;
}

inline TcpJobOptions tcp_options(int rank, int size, std::uint16_t port) {
  return {.rank = rank, .size = size, .address = "127.0.0.1", .port = port, .job = "test"};
}

/// Returns the processes of a job, by rank, which all join at once.
inline std::vector<std::unique_ptr<JobProcess>> join_all(int size) {
  const std::uint16_t port = free_port();
  std::vector<std::unique_ptr<JobProcess>> processes(static_cast<std::size_t>(size));
  std::vector<std::jthread> threads;
  threads.reserve(processes.size());
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      processes[static_cast<std::size_t>(rank)] = join_tcp_job(tcp_options(rank, size, port));
    });
  }
  threads.clear();
  return processes;
}

}  // namespace ptdp
