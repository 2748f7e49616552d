#include "tests/runtime/emulated_nccl/nccl_ranks.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "runtime/transport/threads/thread_world.h"
#include "tests/runtime/emulated_nccl/emulation.h"
#include "tests/runtime/transport/device_copies.h"
#include "tests/runtime/transport/test_ranks.h"

namespace ptdp {
namespace {

/// Makes a rank's backend, in the rank's thread.
using BackendOf = std::function<std::shared_ptr<Backend>(int rank)>;

/// Runs `body` on a thread for every rank. Rethrows the first exception that is not Aborted.
void run(const GpuLaunch& launch, CollectiveAlgorithm algorithm, const BackendOf& backend_of,
         const std::function<void(const GpuRank&, const WorldControl&)>& body) {
  ThreadWorld host(launch.size, algorithm);
  NcclWorld world(make_nccl_id(), launch.size, launch.options);
  const WorldControl control = {.abort =
                                    [&] {
                                      host.abort();
                                      world.abort();
                                    },
                                .is_aborted = [&] { return world.is_aborted(); }};
  std::mutex mutex;
  std::exception_ptr failure;
  std::exception_ptr aborted;
  const auto run_rank = [&](int rank) {
    try {
      const std::shared_ptr<Backend> backend = backend_of(rank);
      CpuBackend host_backend;
      const std::unique_ptr<Communicator> host_end = host.communicator(rank, host_backend);
      const HostSide side{.world = *host_end, .backend = host_backend};
      const std::unique_ptr<Communicator> all = world.communicator(rank, *backend, side);
      body({*all, *backend, side, world}, control);
    } catch (const Aborted&) {
      const std::lock_guard lock(mutex);
      aborted = std::current_exception();
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = failure == nullptr ? std::current_exception() : failure;
      control.abort();
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(launch.size));
    for (int rank = 0; rank < launch.size; ++rank) {
      threads.emplace_back([&, rank] { run_rank(rank); });
    }
  }
  if (failure != nullptr || aborted != nullptr) {
    std::rethrow_exception(failure != nullptr ? failure : aborted);
  }
}

void expect_left_clean() {
  EXPECT_EQ(emulated_nccl::faults(), std::vector<std::string>());
  EXPECT_EQ(emulated_nccl::communicators(), 0);
}

/// Backends kept between worlds without a fault of their own. There are many such worlds, and GPUs
/// take a while to start.
std::vector<std::shared_ptr<Backend>> kept_gpus;

}  // namespace

int most_ranks() {
  return 5;
}

void on_ranks(int size, CollectiveAlgorithm algorithm,
              const std::function<void(const TestRank&)>& body) {
  emulated_nccl::reset({.sums_in_order = algorithm == CollectiveAlgorithm::kOrdered});
  emulated_gpu::set_devices(most_ranks());
  while (static_cast<int>(kept_gpus.size()) < size) {
    kept_gpus.push_back(make_cuda_backend({.device = static_cast<int>(kept_gpus.size())}));
  }
  const auto run_body = [&](const GpuRank& rank, const WorldControl& control) {
    DeviceCopies all(rank.backend, rank.all);
    try {
      body({all, rank.backend, control});
    } catch (const Aborted&) {
      ADD_FAILURE() << "a test that was aborted";
    }
  };
  try {
    run(
        {.size = size}, algorithm,
        [](int rank) { return kept_gpus[static_cast<std::size_t>(rank)]; }, run_body);
  } catch (const Aborted&) {
    // Another rank's body may abort the world before a rank has its end of it.
  }
  for (const std::shared_ptr<Backend>& gpu : kept_gpus) {
    gpu->synchronize();
    EXPECT_EQ(gpu->bytes_in_use(), 0);
  }
  expect_left_clean();
}

void on_gpus(const GpuLaunch& launch, const std::function<void(const GpuRank&)>& body) {
  const std::size_t bytes = emulated_gpu::memory_in_use();
  const int devices = launch.devices > 0 ? launch.devices : launch.size;
  emulated_gpu::set_devices(devices);
  const auto run_all = [&] {
    run(
        launch, CollectiveAlgorithm::kRing,
        [&](int rank) -> std::shared_ptr<Backend> {
          return make_cuda_backend({.device = rank % devices});
        },
        [&](const GpuRank& rank, const WorldControl& /*control*/) { body(rank); });
  };
  const auto look = [&] {
    expect_left_clean();
    EXPECT_EQ(emulated_gpu::memory_in_use(), bytes);
  };
  try {
    run_all();
  } catch (...) {
    look();
    throw;
  }
  look();
}

}  // namespace ptdp

int main(int argc, char** argv) {
  // The excluded test checks other transports' allocations.
  GTEST_FLAG_SET(filter, "-MessageCommunicator.AllocatesAMebibyteAtMost");
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  ptdp::emulated_gpu::set_devices(ptdp::most_ranks());
  ptdp::kept_gpus.clear();
  return status;
}
