// Messages and all-reduces of the MPI transport beside the library's own, TCP and threads, all on
// one host:
//
//   mpirun --oversubscribe -n 8 mpi_benchmark [bytes ...]
//
// The median time of one operation on rank 0, and the bandwidth that it means: of a message that
// of one direction, of an all-reduce 2(n−1)/n·S/t ("bus bandwidth", as nccl-tests define it).
// Threads run in rank 0 while the other processes sleep. Over TCP the processes meet at port 29555
// of this host.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/launch/launch.h"
#include "runtime/transport/processes/mpi_world.h"
#include "runtime/transport/processes/tcp/tcp_job.h"

namespace ptdp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatches = 21;

/// Returns the time of one `operation` in the median of some batches [s]. All ranks must call it.
double median_time(Communicator& world, std::int64_t bytes,
                   const std::function<void()>& operation) {
  const auto batch = static_cast<int>(std::clamp<std::int64_t>((8 << 20) / (bytes + 1), 1, 200));
  std::vector<double> times;
  operation();
  for (int i = 0; i < kBatches; ++i) {
    world.barrier();
    const Clock::time_point begin = Clock::now();
    for (int k = 0; k < batch; ++k) {
      operation();
    }
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count() / batch);
  }
  std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
  return times[kBatches / 2];
}

/// Times of a message (half of there and back between neighbors) and of an all-reduce [s].
struct Times {
  double message = 0.0;
  double all_reduce = 0.0;
};

Times times_of(Communicator& world, Backend& backend, std::int64_t bytes) {
  const Tensor tensor(backend, DataType::kFloat32, bytes / 4);
  backend.fill(tensor, 0.0);
  const int peer = world.rank() ^ 1;
  const double there_and_back = median_time(world, bytes, [&] {
    if (world.rank() < peer) {
      world.wait(world.send(tensor, peer));
      world.wait(world.receive(tensor, peer));
    } else {
      world.wait(world.receive(tensor, peer));
      world.wait(world.send(tensor, peer));
    }
  });
  return {.message = 0.5 * there_and_back, .all_reduce = median_time(world, bytes, [&] {
                                             world.all_reduce(tensor, Reduction::kSum);
                                           })};
}

Times times_of_library(Communicator& world, std::int64_t bytes) {
  std::vector<float> from(static_cast<std::size_t>(bytes / 4));
  std::vector<float> to(from.size());
  const auto count = static_cast<int>(from.size());
  const int peer = world.rank() ^ 1;
  const double there_and_back = median_time(world, bytes, [&] {
    if (world.rank() < peer) {
      MPI_Send(from.data(), count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
      MPI_Recv(to.data(), count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(to.data(), count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(from.data(), count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
    }
  });
  return {.message = 0.5 * there_and_back, .all_reduce = median_time(world, bytes, [&] {
                                             MPI_Allreduce(from.data(), to.data(), count, MPI_FLOAT,
                                                           MPI_SUM, MPI_COMM_WORLD);
                                           })};
}

Times times_of_threads(int ranks, std::int64_t bytes) {
  Times times;
  run_ranks({.size = ranks, .make_backend = [] { return std::make_unique<CpuBackend>(); }},
            [&](Communicator& world, Backend& backend) {
              const Times own = times_of(world, backend, bytes);
              if (world.rank() == 0) {
                times = own;
              }
            });
  return times;
}

void print(const char* what, int ranks, std::int64_t bytes, const Times& times) {
  const auto size = static_cast<double>(bytes);
  const double bus = 2.0 * (ranks - 1) / ranks * size;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): columns
  std::printf("%-16s %5d %10lld %12.2f us %8.2f GB/s %12.2f us %8.2f GB/s\n", what, ranks,
              static_cast<long long>(bytes), 1e6 * times.message, 1e-9 * size / times.message,
              1e6 * times.all_reduce, 1e-9 * bus / times.all_reduce);
  std::fflush(stdout);
}

void measure(Communicator& world, Communicator& over_tcp, Backend& backend, std::int64_t bytes) {
  const int n = world.size();
  const Times library = times_of_library(world, bytes);
  world.barrier();
  const Times mpi = times_of(world, backend, bytes);
  world.barrier();
  const Times tcp = times_of(over_tcp, backend, bytes);
  if (world.rank() == 0) {
    print("library", n, bytes, library);
    print("mpi transport", n, bytes, mpi);
    print("tcp transport", n, bytes, tcp);
    print("threads", n, bytes, times_of_threads(n, bytes));
  }
  world.barrier();
}

}  // namespace
}  // namespace ptdp

int main(int argc, char** argv) {
  std::vector<std::int64_t> sizes;
  for (int i = 1; i < argc; ++i) {
    sizes.push_back(std::atoll(argv[i]) / 4 * 4);
  }
  if (sizes.empty()) {
    sizes = {8, 32 << 10, 256 << 10, 2 << 20, 16 << 20};
  }
  const std::unique_ptr<ptdp::JobProcess> process = ptdp::join_mpi_job();
  const std::unique_ptr<ptdp::JobProcess> tcp = ptdp::join_tcp_job(
      {.rank = process->rank(), .size = process->size(), .address = "127.0.0.1", .port = 29555});
  {
    const std::unique_ptr<ptdp::JobWorld> world =
        process->make_world(process->size(), ptdp::CollectiveAlgorithm::kRing);
    ptdp::CpuBackend backend;
    const auto all = world->communicator(backend);
    const std::unique_ptr<ptdp::JobWorld> tcp_world =
        tcp->make_world(tcp->size(), ptdp::CollectiveAlgorithm::kRing);
    const auto over_tcp = tcp_world->communicator(backend);
    if (process->rank() == 0) {
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): columns
      std::printf("%-16s %5s %10s %24s %27s\n", "", "ranks", "bytes", "message", "all-reduce");
    }
    for (const std::int64_t bytes : sizes) {
      ptdp::measure(*all, *over_tcp, backend, bytes);
    }
  }
  return process->finish(tcp->finish(0));
}
