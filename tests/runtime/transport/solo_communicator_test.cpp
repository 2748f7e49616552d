// Tests of a communicator of one rank that counts what it would send.
#include "runtime/transport/solo_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/runtime/transport/threads.h"

namespace ptdp {
namespace {

using ::testing::ElementsAre;

TEST(SoloCommunicator, LeavesBuffersAsTheyAre) {
  SoloCommunicator solo(2, 4);
  std::vector<float> values = {1, 2, 3, 4, 5};
  solo.wait(solo.receive(buffer_of(values), 0));
  solo.wait(solo.send(buffer_of(values), 3));
  solo.all_reduce(buffer_of(values), Reduction::kSum);
  solo.reduce_scatter(buffer_of(values));
  solo.all_gather(buffer_of(values));
  solo.barrier();
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4, 5));
}

// What a rank of a ring of threads sends, rank by rank and size by size.
TEST(SoloCommunicator, CountsWhatItsRankOfTheRingSends) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::size_t size : {0U, 1U, 2U, 7U, 12U, 1001U}) {
      ThreadWorld world(ranks, CollectiveAlgorithm::kRing);
      on_all_ranks(world, [&](Communicator& all) {
        SoloCommunicator solo(all.rank(), ranks);
        std::vector<float> values(size);
        for (Communicator* const end : {&all, static_cast<Communicator*>(&solo)}) {
          end->all_reduce(buffer_of(values), Reduction::kSum);
          end->all_reduce(buffer_of(values), Reduction::kMaximum);
          end->reduce_scatter(buffer_of(values));
          end->all_gather(buffer_of(values));
          end->barrier();
        }
        EXPECT_EQ(solo.sent().bytes, all.sent().bytes) << ranks << " ranks, " << size;
        EXPECT_EQ(solo.sent().messages, all.sent().messages) << ranks << " ranks, " << size;
      });
    }
  }
}

TEST(SoloCommunicator, CountsSends) {
  SoloCommunicator solo(0, 2);
  std::vector<double> values(3);
  (void)solo.send(buffer_of(values), 1);
  (void)solo.send(buffer_of(values), 1);
  EXPECT_EQ(solo.sent()[CollectiveKind::kSend], 48);
  EXPECT_EQ(solo.sent().messages[static_cast<std::size_t>(CollectiveKind::kSend)], 2);
}

TEST(SoloCommunicator, HasItsPlaceInGroups) {
  SoloCommunicator solo(5, 8);
  const auto group = solo.group(std::array{7, 5, 1}, 0);
  EXPECT_EQ(group->rank(), 1);
  EXPECT_EQ(group->size(), 3);
  std::vector<float> values(3);
  group->all_gather(buffer_of(values));
  EXPECT_EQ(group->sent()[CollectiveKind::kAllGather], 8);
  EXPECT_EQ(solo.sent()[CollectiveKind::kAllGather], 0);
}

}  // namespace
}  // namespace ptdp
