// Tests what ranks on emulated GPUs of their own may expect of NCCL beyond what every transport
// does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/transport/group_tag.h"
#include "runtime/transport/nccl/nccl_blocks.h"
#include "tests/runtime/emulated_nccl/emulation.h"
#include "tests/runtime/emulated_nccl/nccl_ranks.h"
#include "tests/runtime/transport/device_values.h"

namespace ptdp {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr std::array kTypes = {DataType::kFloat64, DataType::kFloat32, DataType::kBFloat16,
                               DataType::kFloat16, DataType::kInt32};
using Numbers = std::vector<double>;

/// Returns small whole numbers, which are exact in every type, as are their sums.
Numbers numbers_of(int rank, std::int64_t size) {
  Numbers values;
  for (std::int64_t i = 0; i < size; ++i) {
    values.push_back(static_cast<double>((rank * 7 + i * 3) % 16));
  }
  return values;
}

Numbers reduced(int ranks, std::int64_t size, Reduction reduction) {
  Numbers result = numbers_of(0, size);
  for (int rank = 1; rank < ranks; ++rank) {
    const Numbers other = numbers_of(rank, size);
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] =
          reduction == Reduction::kSum ? result[i] + other[i] : std::max(result[i], other[i]);
    }
  }
  return result;
}

Numbers slice_of(const Numbers& values, const Part& part) {
  return {values.begin() + part.first, values.begin() + part.first + part.count};
}

/// Returns numbers of which only this rank's part is set; the others are −1.
Numbers only_own(const Numbers& values, const Part& part) {
  Numbers result(values.size(), -1.0);
  std::copy_n(values.begin() + part.first, part.count, result.begin() + part.first);
  return result;
}

class OverNccl : public testing::Test {
 protected:
  void SetUp() override { emulated_nccl::reset(); }
};

TEST_F(OverNccl, ReducesEveryTypeInPartsThatAreNotEqual) {
  for (const int ranks : {1, 2, 3, 4}) {
    on_gpus({.size = ranks}, [&](const GpuRank& rank) {
      for (const DataType type : kTypes) {
        for (const std::int64_t size : {0, 1, 3, 8, 12, 37}) {
          SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(size));
          const Numbers own = numbers_of(rank.all.rank(), size);
          const Part part = part_of(size, ranks, rank.all.rank());
          const Numbers sums = reduced(ranks, size, Reduction::kSum);
          const Tensor summed = uploaded(rank.backend, type, own);
          rank.all.all_reduce(summed, Reduction::kSum);
          EXPECT_EQ(downloaded(rank.backend, summed), sums);
          const Tensor largest = uploaded(rank.backend, type, own);
          rank.all.all_reduce(largest, Reduction::kMaximum);
          EXPECT_EQ(downloaded(rank.backend, largest), reduced(ranks, size, Reduction::kMaximum));
          const Tensor scattered = uploaded(rank.backend, type, own);
          rank.all.reduce_scatter(scattered);
          EXPECT_EQ(slice_of(downloaded(rank.backend, scattered), part), slice_of(sums, part));
          const Tensor gathered = uploaded(rank.backend, type, only_own(sums, part));
          rank.all.all_gather(gathered);
          EXPECT_EQ(downloaded(rank.backend, gathered), sums);
        }
      }
    });
  }
}

// The device does everything as late as it may: what is not waited for is not there.
TEST_F(OverNccl, RunsWhatIsBegunBesideTheLane) {
  on_gpus({.size = 3}, [](const GpuRank& rank) {
    for (const std::int64_t size : {9, 10}) {
      const Numbers sums = reduced(3, size, Reduction::kSum);
      const Part part = part_of(size, 3, rank.all.rank());
      const auto run = [&](const auto& begin, const Numbers& before) {
        rank.backend.use_lane(1);
        const Tensor x = uploaded(rank.backend, DataType::kFloat32, before);
        const Request request = begin(x);
        const Tensor beside = uploaded(rank.backend, DataType::kFloat32, {1.0});
        EXPECT_EQ(downloaded(rank.backend, beside), Numbers{1.0});
        const Tensor result(rank.backend, DataType::kFloat32, size);
        rank.all.wait(request);
        rank.backend.copy(x, result);
        rank.backend.fill(x, kNoNumber);
        return downloaded(rank.backend, result);
      };
      const Numbers own = numbers_of(rank.all.rank(), size);
      EXPECT_EQ(run([&](Buffer x) { return rank.all.begin_all_reduce(x, Reduction::kSum); }, own),
                sums);
      EXPECT_EQ(
          slice_of(run([&](Buffer x) { return rank.all.begin_reduce_scatter(x); }, own), part),
          slice_of(sums, part));
      EXPECT_EQ(run([&](Buffer x) { return rank.all.begin_all_gather(x); }, only_own(sums, part)),
                sums);
    }
  });
}

TEST_F(OverNccl, KeepsTheOrderOfCallsAcrossLanes) {
  on_gpus({.size = 2}, [](const GpuRank& rank) {
    const Tensor x = uploaded(rank.backend, DataType::kFloat32, {1.0});
    for (int turn = 0; turn < 5; ++turn) {
      rank.backend.use_lane(turn % kNumBackendLanes);
      rank.all.all_reduce(x, Reduction::kSum);
      rank.all.wait(rank.all.begin_all_reduce(x, Reduction::kSum));
    }
    EXPECT_EQ(downloaded(rank.backend, x), Numbers{1024.0});
  });
}

TEST_F(OverNccl, MessagesArriveFromAndOnAnyLane) {
  on_gpus({.size = 2}, [](const GpuRank& rank) {
    for (int message = 0; message < 20; ++message) {
      rank.backend.use_lane(message % kNumBackendLanes);
      if (rank.all.rank() == 0) {
        const Tensor x = uploaded(rank.backend, DataType::kFloat64, numbers_of(message, 50));
        rank.all.wait(rank.all.send(x, 1));
        rank.backend.fill(x, kNoNumber);
      } else {
        const Tensor x(rank.backend, DataType::kFloat64, 50);
        rank.all.wait(rank.all.receive(x, 0));
        EXPECT_EQ(downloaded(rank.backend, x), numbers_of(message, 50));
      }
    }
    EXPECT_EQ(rank.all.sent()[CollectiveKind::kSend], rank.all.rank() == 0 ? 20 * 50 * 8 : 0);
  });
}

// Rank 1 asks for the next message before it passes the last one on: rank 0 sends that one when
// rank 2 has the first.
TEST_F(OverNccl, MessagesOfALinkWaitForNoOthers) {
  constexpr std::array links = {MessageLink{.from = 0, .to = 1}, MessageLink{.from = 1, .to = 2},
                                MessageLink{.from = 2, .to = 0}};
  on_gpus({.size = 3}, [&](const GpuRank& rank) {
    const auto group = rank.all.message_group(std::array{0, 1, 2}, 5, links);
    const Tensor first =
        uploaded(rank.backend, DataType::kFloat32, {rank.all.rank() == 0 ? 3.0 : 0});
    const Tensor second =
        uploaded(rank.backend, DataType::kFloat32, {rank.all.rank() == 0 ? 4.0 : 0});
    if (rank.all.rank() == 0) {
      group->wait(group->send(first, 1));
      rank.host.world.barrier();
      group->wait(group->send(second, 1));
      group->wait(group->receive(first, 2));
      EXPECT_EQ(downloaded(rank.backend, first), Numbers{4.0});
    } else if (rank.all.rank() == 1) {
      group->wait(group->receive(first, 0));
      const Request next = group->receive(second, 0);
      group->wait(group->send(first, 2));
      rank.host.world.barrier();
      group->wait(next);
      group->wait(group->send(second, 2));
    } else {
      group->wait(group->receive(first, 1));
      EXPECT_EQ(downloaded(rank.backend, first), Numbers{3.0});
      rank.host.world.barrier();
      group->wait(group->receive(second, 1));
      group->wait(group->send(second, 0));
    }
  });
}

TEST_F(OverNccl, GroupsForMessagesHaveTheirLinksAlone) {
  constexpr std::array links = {MessageLink{.from = 0, .to = 1}};
  on_gpus({.size = 2}, [&](const GpuRank& rank) {
    const auto group = rank.all.message_group(std::array{0, 1}, 2, links);
    const Tensor x = uploaded(rank.backend, DataType::kFloat32, {1.0});
    if (rank.all.rank() == 1) {
      EXPECT_THAT([&] { static_cast<void>(group->send(x, 0)); },
                  testing::ThrowsMessage<Error>(
                      "NCCL, ranks 0, 1: a message from rank 1 to rank 0: the group was made "
                      "without this link"));
    }
    rank.host.world.barrier();
  });
}

TEST_F(OverNccl, MakesGroupsOfSomeRanksInTheOrderGiven) {
  on_gpus({.size = 4}, [](const GpuRank& rank) {
    const int own = rank.all.rank();
    const std::vector<int> odd_or_even = own % 2 == 0 ? std::vector{2, 0} : std::vector{1, 3};
    const auto pair = rank.all.group(odd_or_even, 0);
    EXPECT_EQ(pair->rank(), odd_or_even.front() == own ? 0 : 1);
    const Tensor x = uploaded(rank.backend, DataType::kFloat32, {own + 1.0, 0.0});
    pair->all_reduce(x, Reduction::kSum);
    EXPECT_EQ(downloaded(rank.backend, x).front(), own % 2 == 0 ? 4.0 : 6.0);
    const Tensor parts =
        uploaded(rank.backend, DataType::kFloat32,
                 pair->rank() == 0 ? Numbers{10.0 + own, -1.0} : Numbers{-1.0, 10.0 + own});
    pair->all_gather(parts);
    EXPECT_EQ(downloaded(rank.backend, parts),
              (Numbers{10.0 + odd_or_even.front(), 10.0 + odd_or_even.back()}));
    if (own == 1) {
      rank.all.skip_group();
    } else {
      const auto three = rank.all.group(std::array{0, 2, 3}, 1);
      const Tensor y = uploaded(rank.backend, DataType::kFloat32, {1.0});
      three->all_reduce(y, Reduction::kSum);
      EXPECT_EQ(downloaded(rank.backend, y), Numbers{3.0});
      EXPECT_EQ(three->sent().messages[0], 1);
    }
    pair->barrier();
  });
}

TEST_F(OverNccl, GroupsOfOneHaveNoCommunicatorOfNccls) {
  on_gpus({.size = 2}, [](const GpuRank& rank) {
    const auto alone = rank.all.group(std::array{rank.all.rank()}, 0);
    rank.host.world.barrier();
    EXPECT_EQ(emulated_nccl::communicators(), 2);
    rank.host.world.barrier();  // none leaves before the other has looked
    const Tensor x = uploaded(rank.backend, DataType::kFloat32, {5.0});
    alone->all_reduce(x, Reduction::kSum);
    alone->wait(alone->begin_all_gather(x));
    alone->barrier();
    EXPECT_EQ(downloaded(rank.backend, x), Numbers{5.0});
    EXPECT_EQ(alone->sent().messages[0], 0);
  });
}

TEST_F(OverNccl, AWorldOfOneIsNccls) {
  on_gpus({.size = 1}, [](const GpuRank& rank) {
    const auto group = rank.all.group(std::array{0}, kModelTag);
    EXPECT_EQ(emulated_nccl::communicators(), 1);
    const std::int64_t before = emulated_nccl::calls();
    const Tensor x = uploaded(rank.backend, DataType::kFloat32, numbers_of(0, 5));
    group->all_reduce(x, Reduction::kSum);
    EXPECT_EQ(emulated_nccl::calls(), before + 1);
    const Tensor y(rank.backend, DataType::kFloat32, 5);
    const Request sent = group->send(x, 0);
    group->wait(group->receive(y, 0));
    group->wait(sent);
    EXPECT_EQ(downloaded(rank.backend, y), numbers_of(0, 5));
    EXPECT_EQ(group->sent()[CollectiveKind::kAllReduce], 0);
  });
}

// Each communicator takes memory of its own on every rank.
TEST_F(OverNccl, GroupsOfEqualMembersShareACommunicatorOutsideOfPasses) {
  on_gpus({.size = 3}, [](const GpuRank& rank) {
    const std::array all = {0, 1, 2};
    const auto world = rank.all.group(all, kWorldTag);
    const auto model = rank.all.group(all, kModelTag);
    const auto tensor = rank.all.group(all, kTensorTag);
    const auto shards = rank.all.group(all, kShardTag);
    // Rank 0 has none of the others' two groups, and is at the same point.
    std::array<std::unique_ptr<Communicator>, 2> pairs;
    for (int stage = 0; stage < 2; ++stage) {
      if (rank.all.rank() == 0) {
        rank.all.skip_group();
      } else {
        pairs[stage] = rank.all.group(std::array{1, 2}, kStageDataTag + stage);
      }
    }
    rank.host.world.barrier();
    EXPECT_EQ(emulated_nccl::communicators(), 3 * 3 + 2);
    rank.host.world.barrier();
    const Tensor x = uploaded(rank.backend, DataType::kFloat32, numbers_of(0, 5));
    for (Communicator* const group :
         {world.get(), model.get(), tensor.get(), shards.get(), pairs[0].get(), pairs[1].get()}) {
      if (group != nullptr) {
        group->all_reduce(x, Reduction::kMaximum);
      }
    }
    EXPECT_EQ(downloaded(rank.backend, x), numbers_of(0, 5));
  });
}

// At once there are three collectives, and messages on eight links of DualPipe.
TEST(NcclBlocks, LeaveThreeEighthsOfAGpuToCompute) {
  EXPECT_EQ(blocks_beside_compute(132).collective, 16);
  EXPECT_EQ(blocks_beside_compute(132).link, 4);
  for (int multiprocessors = 32; multiprocessors <= 160; ++multiprocessors) {
    const NcclBlocks blocks = blocks_beside_compute(multiprocessors);
    EXPECT_GE(blocks.link, 1);
    EXPECT_LE(8 * (3 * blocks.collective + 8 * blocks.link), 5 * multiprocessors)
        << multiprocessors;
  }
}

// Each of two GPUs has the world, a group of passes, and a link. NCCL itself takes up to 32 blocks.
TEST_F(OverNccl, LimitsTheBlocksOfEveryCommunicator) {
  constexpr std::array links = {MessageLink{.from = 0, .to = 1}};
  emulated_gpu::set_identity({.multiprocessors = 132});
  on_gpus({.size = 2}, [&](const GpuRank& rank) {
    const auto group = rank.all.group(std::array{0, 1}, kTensorTag);
    const auto messages = rank.all.message_group(std::array{0, 1}, kForwardTag, links);
    rank.host.world.barrier();
    EXPECT_EQ(emulated_nccl::blocks_of_communicators(), (std::vector{4, 4, 16, 16, 16, 16}));
    rank.host.world.barrier();  // none leaves before the other has looked
  });
  emulated_gpu::set_identity({});
}

// A group of a communicator that does not block would be launched: the ranks' numbers change then.
TEST_F(OverNccl, EstimatesWithoutDoingIt) {
  on_gpus({.size = 2}, [](const GpuRank& rank) {
    const Tensor x = uploaded(rank.backend, DataType::kFloat32, Numbers(1001, 1.0));
    for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather}) {
      const auto seconds = rank.all.estimate(kind, x);
      ASSERT_TRUE(seconds.has_value());
      // 4 us for 1000 elements, 2 for a half of them: the emulated NCCL's.
      EXPECT_NEAR(*seconds, kind == CollectiveKind::kAllReduce ? 4e-6 : 2e-6, 1e-12);
    }
    EXPECT_FALSE(rank.all.estimate(CollectiveKind::kSend, x).has_value());
    EXPECT_EQ(downloaded(rank.backend, x), Numbers(1001, 1.0));
  });
}

TEST_F(OverNccl, RefusesRanksThatShareAGpuBeforeNcclStarts) {
  try {
    on_gpus({.size = 3, .devices = 2}, [](const GpuRank& /*rank*/) { ADD_FAILURE(); });
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::kBadInput);
    EXPECT_THAT(error.what(),
                testing::StartsWith("ranks 0 and 2 are both on GPU 0000:00:00.0 of "));
    EXPECT_THAT(error.what(), testing::HasSubstr("--transport threads"));
  }
  EXPECT_EQ(emulated_nccl::calls(), 1);  // the id
}

}  // namespace
}  // namespace ptdp
