// Tests of ranks that are launched as threads, and of how they fail.
#include "runtime/launch/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "tests/runtime/transport/threads.h"

namespace ptdp {
namespace {

using ::testing::AnyOf;

RankLaunch ranks(int size) {
  return {.size = size, .make_backend = [] { return std::make_unique<CpuBackend>(); }};
}

// Returns the Error that a run ends with.
Error fault_of(const RankLaunch& launch, const RankBody& body) {
  try {
    run_ranks(launch, body);
  } catch (const Error& error) {
    return error;
  }
  return Error("nothing thrown", ExitStatus::kDone);
}

// Returns a body in which all ranks wait for `culprit`, so that only an abort ends the world.
RankBody throws_on(int culprit, const std::function<void()>& fault) {
  return [=](Communicator& world, Backend&) {
    if (world.rank() == culprit) {
      fault();
    }
    world.barrier();
  };
}

TEST(RunRanks, RunsTheBodyOnEveryRankWithABackendOfItsOwn) {
  std::mutex mutex;
  std::set<int> seen;
  std::set<const Backend*> backends;
  run_ranks(ranks(5), [&](Communicator& world, Backend& backend) {
    const std::unique_lock lock(mutex);
    EXPECT_EQ(world.size(), 5);
    seen.insert(world.rank());
    backends.insert(&backend);
  });
  EXPECT_EQ(seen, (std::set{0, 1, 2, 3, 4}));
}

TEST(RunRanks, UsesTheAlgorithmAskedFor) {
  // (1 + 2^60) - 2^60 is 0 in the order of ranks; from rank 2 around, -2^60 + 1 is no 0 either.
  const double big = 1152921504606846976.0;
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kOrdered, CollectiveAlgorithm::kRing}) {
    RankLaunch launch = ranks(3);
    launch.algorithm = algorithm;
    std::vector<std::vector<double>> values = {
        {1.0, 1.0, 1.0}, {big, big, big}, {-big, -big, -big}};
    run_ranks(launch, [&](Communicator& world, Backend&) {
      world.all_reduce(buffer_of(values[static_cast<std::size_t>(world.rank())]), Reduction::kSum);
    });
    // The ring begins part 0 at rank 1: big - big + 1.
    EXPECT_EQ(values[0][0], algorithm == CollectiveAlgorithm::kOrdered ? 0.0 : 1.0);
  }
}

TEST(RunRanks, ThrowsTheFirstCauseWithItsRankAndStatus) {
  const Error error = fault_of(ranks(4), throws_on(2, [] {
                                 throw Error("plan.json: expected 3", ExitStatus::kOutputFailed);
                               }));
  EXPECT_STREQ(error.what(), "rank 2: plan.json: expected 3");
  EXPECT_EQ(error.status(), ExitStatus::kOutputFailed);
}

TEST(RunRanks, KeepsThePictureOfAnError) {
  const Error error =
      fault_of(ranks(2), throws_on(1, [] { throw Error("here", std::string("  ^\n")); }));
  EXPECT_STREQ(error.what(), "rank 1: here");
  EXPECT_EQ(error.picture(), "  ^\n");
}

TEST(RunRanks, MakesAFaultOfAnyOtherException) {
  const Error error = fault_of(ranks(3), throws_on(0, [] { throw std::range_error("too far"); }));
  EXPECT_STREQ(error.what(), "rank 0: too far");
  EXPECT_EQ(error.status(), ExitStatus::kRuntimeFault);
  EXPECT_STREQ(fault_of(ranks(3), throws_on(1, [] { throw 42; })).what(),
               "rank 1: unknown exception");
}

std::string mismatch(int from, std::size_t sent, int to, std::size_t expected) {
  return "rank " + std::to_string(from) + " sent " + std::to_string(sent) + " f32 to rank " +
         std::to_string(to) + ", which expects " + std::to_string(expected) + " f32";
}

// Ranks that disagree about a collective, whose slices are copied or taken from their place.
TEST(RunRanks, NamesTheRanksOfACollectiveThatDisagree) {
  for (const std::size_t size : {4U, 60'000U}) {
    const Error error = fault_of(ranks(2), [&](Communicator& world, Backend&) {
      std::vector<float> whole(world.rank() == 0 ? size : 2 * size);
      world.all_gather(buffer_of(whole));
    });
    const std::string fault = std::string(error.what()).substr(std::string("rank 0: ").size());
    EXPECT_EQ(error.status(), ExitStatus::kRuntimeFault);
    EXPECT_THAT(fault, AnyOf(mismatch(0, size / 2, 1, size), mismatch(1, size, 0, size / 2)));
  }
}

TEST(RunRanks, ReportsABackendThatCannotBeMade) {
  RankLaunch launch = ranks(3);
  std::atomic<int> made = 0;
  launch.make_backend = [&]() -> std::unique_ptr<Backend> {
    if (made.fetch_add(1) == 2) {
      throw Error("no device", ExitStatus::kRuntimeFault);
    }
    return std::make_unique<CpuBackend>();
  };
  const Error error = fault_of(launch, [](Communicator& world, Backend&) { world.barrier(); });
  EXPECT_NE(std::string(error.what()).find(": no device"), std::string::npos) << error.what();
}

TEST(RunRanks, PassesOnAbortedWhereNothingElseWasThrown) {
  EXPECT_THROW(run_ranks(ranks(2), throws_on(1, [] { throw Aborted(); })), Aborted);
}

TEST(RunRanks, StartsSeveralHundredRanks) {
  std::atomic<int> sum = 0;
  run_ranks(ranks(512), [&](Communicator& world, Backend&) {
    std::vector<float> one = {1.0F};
    world.all_reduce(buffer_of(one), Reduction::kSum);
    sum += static_cast<int>(one[0]);
  });
  EXPECT_EQ(sum.load(), 512 * 512);
}

TEST(RunRanks, StopsAllRanksAtTheSameStep) {
  StopFlag flag;
  std::mutex mutex;
  std::set<int> steps;
  run_ranks(ranks(4), [&](Communicator& world, Backend& backend) {
    int step = 0;
    while (!agree_to_stop(flag, world, backend)) {
      ++step;
      if (world.rank() == 3 && step == 20) {
        flag.raise();
      }
    }
    const std::lock_guard lock(mutex);
    steps.insert(step);
  });
  EXPECT_EQ(steps.size(), 1U);
  EXPECT_GE(*steps.begin(), 19);
}

// Sanitizers need more address space than they are given here.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(RunRanksDeathTest, ReportsAThreadThatCannotBeStarted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    const rlimit limit = {rlim_t{512} << 20, rlim_t{512} << 20};
    setrlimit(RLIMIT_AS, &limit);
    const Error error =
        fault_of(ranks(1000), [](Communicator& world, Backend&) { world.barrier(); });
    std::cerr << error.what() << '\n';
    std::_Exit(static_cast<int>(error.status()));
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(4),
              "^rank [0-9]+: cannot start its thread: Resource temporarily unavailable");
}
#endif

}  // namespace
}  // namespace ptdp
