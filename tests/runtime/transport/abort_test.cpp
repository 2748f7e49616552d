// Tests that every call of an aborted world throws, calls that sleep included.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/transport/test_ranks.h"

namespace ptdp {
namespace {

struct Call {
  std::string name;
  std::function<void(Communicator&)> make;
};

// Returns a call with a buffer of its own.
template <class Function>
std::function<void(Communicator&)> with_buffer(const Function& call) {
  return [=](Communicator& all) {
    std::vector<float> values(100'000);
    call(all, buffer_of(values));
  };
}

std::vector<Call> calls() {
  return {
      {"send", with_buffer([](Communicator& all, Buffer whole) { (void)all.send(whole, 1); })},
      {"receive",
       with_buffer([](Communicator& all, Buffer whole) { (void)all.receive(whole, 1); })},
      {"group",
       [](Communicator& all) {
         (void)all.group(std::array{0, 1}, 0);
       }},
      {"wait", [](Communicator& all) { all.wait({}); }},
      {"barrier", [](Communicator& all) { all.barrier(); }},
      {"all_reduce", with_buffer([](Communicator& all, Buffer whole) {
         all.all_reduce(whole, Reduction::kSum);
       })},
      {"reduce_scatter",
       with_buffer([](Communicator& all, Buffer whole) { all.reduce_scatter(whole); })},
      {"all_gather", with_buffer([](Communicator& all, Buffer whole) { all.all_gather(whole); })},
  };
}

TEST(Abort, MakesEveryLaterCallThrow) {
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    on_ranks(2, algorithm, [](const TestRank& rank) {
      if (rank.all.rank() != 0) {
        EXPECT_THROW(rank.all.barrier(), Aborted);
        return;
      }
      EXPECT_FALSE(rank.world.is_aborted());
      rank.world.abort();
      EXPECT_TRUE(rank.world.is_aborted());
      for (const Call& call : calls()) {
        EXPECT_THROW(call.make(rank.all), Aborted) << call.name;
      }
    });
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
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    for (const Call& call : waiting) {
      on_ranks(2, algorithm, [&](const TestRank& rank) {
        if (rank.all.rank() == 0) {
          const std::jthread watchdog([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            rank.world.abort();
          });
          EXPECT_THROW(call.make(rank.all), Aborted) << call.name;
        }
      });
    }
  }
}

}  // namespace
}  // namespace ptdp
