// Every call of an aborted world throws, those that sleep included.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/transport/threads.h"

namespace ptdp {
namespace {

struct Call {
  std::string name;
  std::function<void(Communicator&)> make;
};

std::vector<Call> calls() {
  static std::vector<float> values(100'000);
  return {
      {"send", [](Communicator& all) { (void)all.send(buffer_of(values), 1); }},
      {"receive", [](Communicator& all) { (void)all.receive(buffer_of(values), 1); }},
      {"group",
       [](Communicator& all) {
         (void)all.group(std::array{0, 1}, 0);
       }},
      {"wait", [](Communicator& all) { all.wait({}); }},
      {"barrier", [](Communicator& all) { all.barrier(); }},
      {"all_reduce", [](Communicator& all) { all.all_reduce(buffer_of(values), Reduction::kSum); }},
      {"reduce_scatter", [](Communicator& all) { all.reduce_scatter(buffer_of(values)); }},
      {"all_gather", [](Communicator& all) { all.all_gather(buffer_of(values)); }},
  };
}

TEST(Abort, MakesEveryLaterCallThrow) {
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kOrdered}) {
    ThreadWorld world(2, algorithm);
    CpuBackend backend;
    const auto end = world.communicator(0, backend);
    EXPECT_FALSE(world.is_aborted());
    world.abort();
    EXPECT_TRUE(world.is_aborted());
    for (const Call& call : calls()) {
      EXPECT_THROW(call.make(*end), Aborted) << call.name;
    }
  }
}

// Rank 0 waits for rank 1, which never comes.
TEST(Abort, WakesWhoeverWaits) {
  std::vector<Call> waiting = calls();
  waiting.erase(waiting.begin(), waiting.begin() + 4);
  waiting.push_back({"receive and wait", [](Communicator& all) {
                       std::vector<float> values(3);
                       all.wait(all.receive(buffer_of(values), 1));
                     }});
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kOrdered}) {
    for (const Call& call : waiting) {
      ThreadWorld world(2, algorithm);
      std::atomic<bool> was_aborted = false;
      std::thread rank([&] {
        CpuBackend backend;
        const auto end = world.communicator(0, backend);
        try {
          call.make(*end);
        } catch (const Aborted&) {
          was_aborted = true;
        }
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      world.abort();
      rank.join();
      EXPECT_TRUE(was_aborted) << call.name;
    }
  }
}

}  // namespace
}  // namespace ptdp
