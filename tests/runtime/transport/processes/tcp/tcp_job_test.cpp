// Tests of processes that die, abort or never come, over TCP, and of strangers that connect to a
// job.
#include "runtime/transport/processes/tcp/tcp_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/launch/launch.h"
#include "tests/runtime/transport/buffers.h"
#include "tests/runtime/transport/processes/tcp/tcp_processes.h"

namespace ptdp {
namespace {

using ::testing::HasSubstr;

/// A separate process that joins, sends rank 0 a word and waits until it is killed. It must be made
/// before there are threads.
class OtherProcess {
 public:
  OtherProcess(int rank, int size, std::uint16_t port) : process_(::fork()) {
    if (process_ == 0) {
      const auto process = join_tcp_job(tcp_options(rank, size, port));
      const auto world = process->make_world(size, CollectiveAlgorithm::kRing);
      CpuBackend backend;
      const auto all = world->communicator(backend);
      all->barrier();
      while (true) {
        ::pause();
      }
    }
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  OtherProcess(OtherProcess&&) = delete;
  OtherProcess& operator=(OtherProcess&&) = delete;
  ~OtherProcess() { kill(); }
  void kill() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
      process_ = 0;
    }
  }

 private:
  pid_t process_;
};

/// Returns the message that `call` throws.
template <class Call>
std::string thrown_by(const Call& call) {
  try {
    call();
  } catch (const PeerLost& lost) {
    EXPECT_EQ(lost.status(), ExitStatus::kRuntimeFault);
    return lost.what();
  } catch (const Aborted&) {
    return "aborted";
  }
  return "nothing";
}

/// What processes 0 and 1 hear of the death of a third, while they wait for each other or for it.
struct Heard {
  std::string first;
  std::string second;
  std::array<int, 2> statuses = {};
};

Heard after_death_of(int dead) {
  const std::uint16_t port = free_port();
  OtherProcess other(dead, 3, port);
  std::array<std::string, 2> heard;
  std::array<int, 2> statuses = {};
  std::atomic<int> num_ready = 0;
  {
    std::vector<std::jthread> threads;
    threads.reserve(2);
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        const int rank = i >= dead ? i + 1 : i;
        const auto process = join_tcp_job(tcp_options(rank, 3, port));
        {
          const auto world = process->make_world(3, CollectiveAlgorithm::kRing);
          CpuBackend backend;
          const auto all = world->communicator(backend);
          all->barrier();
          ++num_ready;
          std::vector<float> values(5);
          heard[static_cast<std::size_t>(i)] =
              thrown_by([&] { all->wait(all->receive(buffer_of(values), dead)); });
          EXPECT_NE(thrown_by([&] { all->barrier(); }), "nothing");  // and so on
        }
        const auto next = process->make_world(3, CollectiveAlgorithm::kRing);
        EXPECT_TRUE(next->is_aborted());
        statuses[static_cast<std::size_t>(i)] = process->finish(0);
      });
    }
    while (num_ready < 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    other.kill();
  }
  return {.first = heard[0], .second = heard[1], .statuses = statuses};
}

TEST(TcpJob, TellsOfAKilledProcessOnRankZeroAndEndsAll) {
  const Heard heard = after_death_of(2);
  EXPECT_EQ(heard.first, "rank 2 on host " + own_host_name() +
                             ": its process has ended without a "
                             "word");
  EXPECT_EQ(heard.second, "aborted");  // rank 0 says it
  EXPECT_EQ(heard.statuses, (std::array{4, 4}));
}

TEST(TcpJob, TellsOfTheEndOfRankZeroOnAllOthers) {
  const Heard heard = after_death_of(0);
  EXPECT_THAT(heard.first, HasSubstr("rank 0 on host "));
  EXPECT_THAT(heard.second, HasSubstr("rank 0 on host "));
  EXPECT_EQ(heard.statuses, (std::array{4, 4}));
}

/// Calls `body` for every process of a job, each in a thread, with its end of a world.
template <class Body>
void run_all(int size, const Body& body) {
  const auto processes = join_all(size);
  std::vector<std::jthread> threads;
  threads.reserve(processes.size());
  for (const auto& process : processes) {
    threads.emplace_back([&, job = &*process] {
      CpuBackend backend;
      const auto world = job->make_world(size, CollectiveAlgorithm::kRing);
      const auto all = world->communicator(backend);
      body(*job, *world, *all);
    });
  }
}

// Rank 2 aborts; rank 1, which waits for nobody, hears of it while it works, as does rank 0.
TEST(TcpJob, LetsProcessesThatWorkHearOfAnAbort) {
  run_all(3, [](JobProcess& process, JobWorld& world, Communicator& all) {
    all.barrier();
    if (process.rank() == 2) {
      world.abort(5);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!world.is_aborted() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_TRUE(world.is_aborted());
    EXPECT_EQ(process.finish(process.rank() == 2 ? 5 : 4), 5);
  });
}

TEST(TcpJob, WaitsInItsLastCallForAll) {
  std::atomic<bool> is_slow_done = false;
  run_all(3, [&](JobProcess& process, JobWorld&, Communicator& all) {
    if (process.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      std::vector<float> word = {1.0F};
      all.wait(all.send(buffer_of(word), 2));  // whose receiver is in its last call already
      is_slow_done = true;
    }
    EXPECT_EQ(process.finish(process.rank() == 1 ? 2 : 0), process.rank() == 1 ? 2 : 0);
    EXPECT_TRUE(is_slow_done);
  });
}

// 120 MB to a process that does not take them yet, and small ones behind.
TEST(TcpJob, CarriesLargeMessages) {
  run_all(2, [](JobProcess& process, JobWorld&, Communicator& all) {
    const std::size_t size = 30'000'000;
    std::vector<float> large(size);
    std::vector<float> small = {3.0F};
    if (process.rank() == 0) {
      large.front() = 1.0F;
      large[size / 2] = 2.0F;
      large.back() = 4.0F;
      all.wait(all.send(buffer_of(large), 1));
      all.wait(all.send(buffer_of(small), 1));
      large.front() = -1.0F;  // the transport has its own copy
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      all.wait(all.receive(buffer_of(large), 0));
      all.wait(all.receive(buffer_of(small), 0));
      EXPECT_EQ(large.front(), 1.0F);
      EXPECT_EQ(large[size / 2], 2.0F);
      EXPECT_EQ(large.back(), 4.0F);
      EXPECT_EQ(std::accumulate(large.begin(), large.end(), 0.0), 7.0);
      EXPECT_EQ(small[0], 3.0F);
    }
    all.barrier();
    EXPECT_EQ(process.finish(0), 0);
  });
}

TEST(TcpJob, IsAWorldOfOneByItself) {
  const auto process = join_tcp_job({.rank = 0, .size = 1});
  {
    const auto world = process->make_world(1, CollectiveAlgorithm::kRing);
    CpuBackend backend;
    const auto all = world->communicator(backend);
    std::vector<float> values = {2.0F};
    all->all_reduce(buffer_of(values), Reduction::kSum);
    all->wait(all->send(buffer_of(values), 0));
    values = {0.0F};
    all->wait(all->receive(buffer_of(values), 0));
    EXPECT_EQ(values[0], 2.0F);
    all->barrier();
  }
  EXPECT_EQ(process->finish(3), 3);
}

// NCCL itself is not reached.
TEST(TcpJob, NamesARankThatDoesNotJoinNccl) {
  for (const int absent : {0, 1}) {
    const auto processes = join_all(2);
    const auto make_backend = [] { return std::make_unique<CpuBackend>(); };
    const int present = 1 - absent;
    const RankLaunch launch{.size = 2,
                            .make_backend = make_backend,
                            .process = &*processes[static_cast<std::size_t>(present)],
                            .uses_nccl = true,
                            .make_host_backend = make_backend,
                            .start_limit = Seconds(0.2)};
    EXPECT_EQ(thrown_by([&] { run_ranks(launch, [](Communicator&, Backend&) {}); }),
              "rank " + std::to_string(absent) + ": its start: rank " + std::to_string(present) +
                  " on host " + own_host_name() +
                  " waits to join NCCL; expected at most 0.2 s (--deadline)");
  }
}

TEST(TcpJob, EndsForAllWhereOneLeavesWithoutItsLastCall) {
  auto processes = join_all(2);
  std::jthread other([&] {
    CpuBackend backend;
    const auto world = processes[0]->make_world(2, CollectiveAlgorithm::kRing);
    const auto all = world->communicator(backend);
    EXPECT_NE(thrown_by([&] { all->barrier(); }), "nothing");
  });
  processes[1].reset();
  other.join();
  EXPECT_NE(processes[0]->finish(0), 0);
}

}  // namespace
}  // namespace ptdp
