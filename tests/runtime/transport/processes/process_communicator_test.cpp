// Tests what messages between processes promise, over MPI and TCP, beyond what all transports are
// tested for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cost_model/error.h"
#include "runtime/transport/gathering.h"
#include "tests/runtime/transport/float_messages.h"
#include "tests/runtime/transport/test_ranks.h"

namespace ptdp {
namespace {

using ::testing::ElementsAre;
using Clock = std::chrono::steady_clock;

constexpr CollectiveAlgorithm kRing = CollectiveAlgorithm::kRing;

// Both ranks send before either receives, more than any MPI keeps for a receiver.
TEST(ProcessCommunicator, SendsWithoutWaitingForItsReceiver) {
  on_ranks(2, kRing, [](const TestRank& rank) {
    const int other = 1 - rank.all.rank();
    const std::size_t size = std::size_t{8} << 20;
    std::vector<float> values(size, static_cast<float>(rank.all.rank()));
    rank.all.wait(rank.all.send(buffer_of(values), other));
    values.assign(size, -1.0F);  // the transport has its own copy
    send(rank.all, {5.0F}, other);
    EXPECT_EQ(received(rank.all, size, other), std::vector<float>(size, static_cast<float>(other)));
    EXPECT_THAT(received(rank.all, 1, other), ElementsAre(5.0F));
  });
}

// Large messages take longer than small ones behind them.
TEST(ProcessCommunicator, KeepsTheOrderOfLargeAndSmallMessages) {
  on_ranks(2, kRing, [](const TestRank& rank) {
    const std::array<std::size_t, 6> sizes = {3'000'000, 1, 70'000, 0, 1'000'000, 2};
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const auto value = static_cast<float>(i);
        if (rank.all.rank() == 0) {
          send(rank.all, std::vector<float>(sizes[i], value), 1);
        } else {
          EXPECT_EQ(received(rank.all, sizes[i], 0), std::vector<float>(sizes[i], value));
        }
      }
    }
  });
}

TEST(ProcessCommunicator, CarriesAllTypesAndNothing) {
  on_ranks(2, kRing, [](const TestRank& rank) {
    std::vector<std::int32_t> tokens = {1 << 30, -5};
    std::vector<double> losses = {0.1};
    std::vector<BFloat16> weights = {BFloat16(1.5F)};
    std::vector<float> nothing;
    Communicator& all = rank.all;
    if (all.rank() == 0) {
      all.wait(all.send(buffer_of(tokens), 1));
      all.wait(all.send(buffer_of(nothing), 1));
      all.wait(all.send(buffer_of(losses), 1));
      all.wait(all.send(buffer_of(weights), 1));
      return;
    }
    std::vector<std::int32_t> received_tokens(2);
    std::vector<double> received_losses(1);
    std::vector<BFloat16> received_weights(1);
    all.wait(all.receive(buffer_of(received_tokens), 0));
    all.wait(all.receive(buffer_of(nothing), 0));
    all.wait(all.receive(buffer_of(received_losses), 0));
    all.wait(all.receive(buffer_of(received_weights), 0));
    EXPECT_EQ(received_tokens, tokens);
    EXPECT_EQ(received_losses, losses);
    EXPECT_EQ(received_weights[0].bits, weights[0].bits);
  });
}

TEST(ProcessCommunicator, SendsToItself) {
  on_ranks(1, kRing, [](const TestRank& rank) {
    send(rank.all, {4}, 0);
    EXPECT_THAT(received(rank.all, 1, 0), ElementsAre(4));
  });
}

// Rank 0 makes the groups in another order than rank 2, and neither waits for the other in it.
TEST(ProcessCommunicator, KeepsGroupsOfUnequalTagsApartInWhateverOrderTheyAreMade) {
  on_ranks(3, kRing, [](const TestRank& rank) {
    const std::array members = {2, 0};
    Communicator& all = rank.all;
    if (all.rank() == 0) {
      const auto seven = all.group(members, 7);
      const auto eight = all.group(members, 8);
      EXPECT_THAT(received(*eight, 1, 0), ElementsAre(8));
      EXPECT_THAT(received(all, 1, 2), ElementsAre(1));
      EXPECT_THAT(received(*seven, 1, 0), ElementsAre(7));
    } else if (all.rank() == 2) {
      const auto eight = all.group(members, 8);
      const auto seven = all.group(members, 7);
      EXPECT_EQ(eight->rank(), 0);
      send(*seven, {7}, 1);
      send(*eight, {8}, 1);
      send(all, {1}, 0);
    }
  });
}

TEST(ProcessCommunicator, MakesAGroupOfItsOwnWithEveryCallAndOfGroups) {
  on_ranks(4, kRing, [](const TestRank& rank) {
    const std::array some = {1, 2, 3};
    const std::array last_two = {2, 1};
    if (rank.all.rank() == 0) {
      return;
    }
    const auto first = rank.all.group(some, 0);
    const auto second = rank.all.group(some, 0);
    if (rank.all.rank() == 1) {
      return;
    }
    const auto pair = first->group(last_two, 0);
    if (rank.all.rank() == 3) {
      EXPECT_EQ(pair->rank(), 0);
      send(*pair, {3}, 1);
      send(*second, {2}, 1);
      send(*first, {1}, 1);
    } else {
      EXPECT_THAT(received(*first, 1, 2), ElementsAre(1));
      EXPECT_THAT(received(*second, 1, 2), ElementsAre(2));
      EXPECT_THAT(received(*pair, 1, 0), ElementsAre(3));
    }
  });
}

// An end that is gone left a receive and a message behind.
TEST(ProcessCommunicator, SurvivesAnEndThatLeftAReceiveBehind) {
  on_ranks(2, kRing, [](const TestRank& rank) {
    const std::array both = {0, 1};
    std::vector<float> untouched = {7};
    if (rank.all.rank() == 0) {
      const auto group = rank.all.group(both, 0);
      (void)group->receive(buffer_of(untouched), 1);
    } else {
      send(*rank.all.group(both, 0), {1}, 0);
    }
    rank.all.barrier();
    rank.all.barrier();
    EXPECT_THAT(untouched, ElementsAre(7));
  });
}

TEST(ProcessCommunicator, NamesBothRanksOfAMismatch) {
  on_ranks(4, kRing, [](const TestRank& rank) {
    const std::array some = {1, 3};
    if (rank.all.rank() % 2 == 0) {
      return;
    }
    const auto pair = rank.all.group(some, 0);
    if (rank.all.rank() == 1) {
      send(*pair, std::vector<float>(16), 1);
      return;
    }
    try {
      (void)received(*pair, 8, 0);
      ADD_FAILURE() << "nothing thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::kRuntimeFault);
      EXPECT_STREQ(error.what(), "rank 1 sent 16 f32 to rank 3, which expects 8 f32");
    }
  });
}

// As many lanes of an executor, each with a group of its own.
TEST(ProcessCommunicator, LetsSeveralThreadsUseGroupsOfTheirOwnAtOnce) {
  on_ranks(4, kRing, [](const TestRank& rank) {
    const std::array members = {0, 1, 2, 3};
    std::vector<std::unique_ptr<Communicator>> groups;
    groups.reserve(members.size());
    for (int lane = 0; lane < 4; ++lane) {
      groups.push_back(rank.all.group(members, lane));
    }
    std::vector<std::jthread> lanes;
    lanes.reserve(members.size());
    for (int lane = 0; lane < 4; ++lane) {
      lanes.emplace_back([&, lane] {
        Communicator& group = *groups[static_cast<std::size_t>(lane)];
        for (int round = 0; round < 20; ++round) {
          std::vector<float> values(static_cast<std::size_t>(1 + 5000 * lane),
                                    static_cast<float>(lane + round));
          group.all_reduce(buffer_of(values), Reduction::kSum);
          EXPECT_EQ(values,
                    std::vector<float>(values.size(), 4.0F * static_cast<float>(lane + round)));
          send(group, {static_cast<float>(round)}, (group.rank() + 1) % 4);
          EXPECT_THAT(received(group, 1, (group.rank() + 3) % 4),
                      ElementsAre(static_cast<float>(round)));
        }
      });
    }
  });
}

// The bound is some thousand times what it takes, for a loaded machine.
TEST(ProcessCommunicator, EndsAWaitSoonAfterAnAbortByAnotherThread) {
  on_ranks(2, kRing, [](const TestRank& rank) {
    if (rank.all.rank() != 0) {
      return;
    }
    Clock::time_point aborted;
    const std::jthread watchdog([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // rank 0 sleeps by then
      aborted = Clock::now();
      rank.world.abort();
    });
    EXPECT_THROW((void)received(rank.all, 1, 1), Aborted);
    EXPECT_LT(Clock::now() - aborted, std::chrono::seconds(10));
  });
}

TEST(Gathering, BringsBytesOfAllProcessesTogether) {
  on_ranks(4, kRing, [](const TestRank& rank) {
    const std::string own(static_cast<std::size_t>(3 * rank.all.rank()), 'x');
    const auto all = gather_bytes(rank.all, rank.backend, own);
    if (rank.all.rank() == 0) {
      EXPECT_THAT(all, ElementsAre("", "xxx", "xxxxxx", "xxxxxxxxx"));
    } else {
      EXPECT_TRUE(all.empty());
    }
    EXPECT_EQ(broadcast_bytes(rank.all, rank.backend, rank.all.rank() == 0 ? "plan" : ""), "plan");
  });
}

}  // namespace
}  // namespace ptdp
