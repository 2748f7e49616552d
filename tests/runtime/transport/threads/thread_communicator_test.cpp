// Tests messages between threads, one step at a time. One thread drives several ends, so a send
// that waited for its receiver would hang.
#include "runtime/transport/threads/thread_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "tests/runtime/transport/float_messages.h"
#include "tests/runtime/transport/threads.h"

namespace ptdp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A world of threads, with all its ends on this thread.
struct Ends {
  explicit Ends(int size) : world(size, CollectiveAlgorithm::kRing) {
    for (int rank = 0; rank < size; ++rank) {
      ends.push_back(world.communicator(rank, backend));
    }
  }
  Communicator& operator[](int rank) { return *ends[static_cast<std::size_t>(rank)]; }

  CpuBackend backend;
  ThreadWorld world;
  std::vector<std::unique_ptr<Communicator>> ends;
};

TEST(ThreadCommunicator, DeliversWhatWasSentBeforeItsReceive) {
  Ends ends(2);
  send(ends[0], {1, 2}, 1);
  send(ends[0], {3}, 1);
  EXPECT_THAT(received(ends[1], 2, 0), ElementsAre(1, 2));
  EXPECT_THAT(received(ends[1], 1, 0), ElementsAre(3));
}

TEST(ThreadCommunicator, KeepsTheOrderOfReceivesWhateverTheOrderOfWaits) {
  Ends ends(2);
  std::vector<float> first(1);
  std::vector<float> second(1);
  std::vector<float> third(1);
  const Request of_first = ends[1].receive(buffer_of(first), 0);
  const Request of_second = ends[1].receive(buffer_of(second), 0);
  send(ends[0], {1}, 1);
  send(ends[0], {2}, 1);
  send(ends[0], {3}, 1);
  const Request of_third = ends[1].receive(buffer_of(third), 0);
  ends[1].wait(of_second);
  EXPECT_THAT(second, ElementsAre(2));
  ends[1].wait(of_third);
  ends[1].wait(of_first);
  EXPECT_THAT(first, ElementsAre(1));
  EXPECT_THAT(third, ElementsAre(3));
}

TEST(ThreadCommunicator, LetsASendersBufferBeUsedAgain) {
  Ends ends(2);
  std::vector<float> values = {1, 2, 3};
  ends[0].wait(ends[0].send(buffer_of(values), 1));
  values = {4, 5, 6};
  EXPECT_THAT(received(ends[1], 3, 0), ElementsAre(1, 2, 3));
}

// So that a rank that throws may leave receives behind.
TEST(ThreadCommunicator, WritesToABufferOnlyWhileItsRankWaits) {
  Ends ends(2);
  std::vector<float> values = {7};
  const Request request = ends[1].receive(buffer_of(values), 0);
  send(ends[0], {1}, 1);
  EXPECT_THAT(values, ElementsAre(7));
  ends[1].wait(request);
  EXPECT_THAT(values, ElementsAre(1));
}

TEST(ThreadCommunicator, SurvivesAnEndThatLeftReceivesBehind) {
  Ends ends(2);
  std::vector<float> values = {7};
  (void)ends[1].receive(buffer_of(values), 0);
  ends.ends.pop_back();
  send(ends[0], {1}, 1);
  EXPECT_THAT(values, ElementsAre(7));
}

TEST(ThreadCommunicator, CarriesAllTypesAndNothing) {
  Ends ends(2);
  std::vector<std::int32_t> tokens = {1 << 30, -5};
  std::vector<double> losses = {0.1};
  std::vector<float> nothing;
  (void)ends[0].send(buffer_of(tokens), 1);
  (void)ends[0].send(buffer_of(nothing), 1);
  (void)ends[0].send(buffer_of(losses), 1);
  std::vector<std::int32_t> received_tokens(2);
  std::vector<double> received_losses(1);
  ends[1].wait(ends[1].receive(buffer_of(received_tokens), 0));
  EXPECT_THAT(received(ends[1], 0, 0), IsEmpty());
  ends[1].wait(ends[1].receive(buffer_of(received_losses), 0));
  EXPECT_EQ(received_tokens, tokens);
  EXPECT_EQ(received_losses, losses);
}

TEST(ThreadCommunicator, SendsToItself) {
  Ends ends(1);
  send(ends[0], {4}, 0);
  EXPECT_THAT(received(ends[0], 1, 0), ElementsAre(4));
}

TEST(ThreadCommunicator, CountsWhatItSends) {
  Ends ends(2);
  send(ends[0], {1, 2, 3}, 1);
  send(ends[0], {}, 1);
  EXPECT_EQ(ends[0].sent()[CollectiveKind::kSend], 12);
  EXPECT_EQ(ends[0].sent().messages[static_cast<std::size_t>(CollectiveKind::kSend)], 2);
  EXPECT_EQ(ends[1].sent()[CollectiveKind::kSend], 0);
}

// Returns the message that `call` throws.
template <class Call>
std::string fault_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::kRuntimeFault);
    return error.what();
  }
  return "nothing thrown";
}

TEST(ThreadCommunicator, NamesBothRanksOfAMismatch) {
  Ends ends(8);
  const std::array some = {3, 5};
  const auto three = ends[3].group(some, 0);
  const auto five = ends[5].group(some, 0);
  std::vector<float> eight(8);

  send(*three, std::vector<float>(16), 1);
  EXPECT_EQ(fault_of([&] { (void)five->receive(buffer_of(eight), 0); }),
            "rank 3 sent 16 f32 to rank 5, which expects 8 f32");

  std::vector<double> doubles(8);
  (void)three->receive(buffer_of(eight), 1);
  EXPECT_EQ(fault_of([&] { (void)five->send(buffer_of(doubles), 0); }),
            "rank 5 sent 8 f64 to rank 3, which expects 8 f32");
}

// Groups of the same ranks.
TEST(ThreadCommunicator, KeepsGroupsOfUnequalTagsApart) {
  Ends ends(3);
  const std::array some = {2, 0};
  const auto of_zero = ends[0].group(some, 7);
  const auto other_of_zero = ends[0].group(some, 8);
  const auto other_of_two = ends[2].group(some, 8);
  const auto of_two = ends[2].group(some, 7);
  EXPECT_EQ(of_two->rank(), 0);
  EXPECT_EQ(of_zero->rank(), 1);
  EXPECT_EQ(of_zero->size(), 2);
  send(*of_two, {1}, 1);
  send(*other_of_two, {2}, 1);
  send(ends[2], {3}, 0);
  EXPECT_THAT(received(ends[0], 1, 2), ElementsAre(3));
  EXPECT_THAT(received(*other_of_zero, 1, 0), ElementsAre(2));
  EXPECT_THAT(received(*of_zero, 1, 0), ElementsAre(1));
}

TEST(ThreadCommunicator, MakesAGroupOfItsOwnWithEveryCall) {
  Ends ends(2);
  const std::array both = {0, 1};
  const auto first_of_zero = ends[0].group(both, 0);
  const auto second_of_zero = ends[0].group(both, 0);
  send(*second_of_zero, {2}, 1);
  send(*first_of_zero, {1}, 1);
  const auto first_of_one = ends[1].group(both, 0);
  const auto second_of_one = ends[1].group(both, 0);
  EXPECT_THAT(received(*first_of_one, 1, 0), ElementsAre(1));
  EXPECT_THAT(received(*second_of_one, 1, 0), ElementsAre(2));
}

TEST(ThreadCommunicator, DeliversWhatWasSentByAnEndThatIsGone) {
  Ends ends(2);
  const std::array both = {0, 1};
  {
    const auto of_zero = ends[0].group(both, 0);
    send(*of_zero, {5}, 1);
  }
  EXPECT_THAT(received(*ends[1].group(both, 0), 1, 0), ElementsAre(5));
}

TEST(ThreadCommunicator, MakesGroupsOfGroups) {
  Ends ends(5);
  const std::array odd_ones = {1, 3, 4};
  const std::array last_two = {2, 1};  // Ranks 4 and 3 of the world.
  const auto of_three = ends[3].group(odd_ones, 0)->group(last_two, 0);
  const auto of_four = ends[4].group(odd_ones, 0)->group(last_two, 0);
  EXPECT_EQ(of_four->rank(), 0);
  EXPECT_EQ(of_three->rank(), 1);
  send(*of_four, {9}, 1);
  EXPECT_THAT(received(*of_three, 1, 0), ElementsAre(9));
}

TEST(ThreadCommunicator, KeepsMessagesApartFromCollectives) {
  ThreadWorld world(3, CollectiveAlgorithm::kOrdered);
  on_all_ranks(world, [](Communicator& all) {
    const int next = (all.rank() + 1) % 3;
    std::vector<float> message = {static_cast<float>(all.rank())};
    std::vector<float> arrived(1);
    std::vector<float> whole = {1, 2, 3};
    const Request request = all.receive(buffer_of(arrived), (all.rank() + 2) % 3);
    all.all_reduce(buffer_of(whole), Reduction::kSum);
    all.wait(all.send(buffer_of(message), next));
    all.barrier();
    all.wait(request);
    EXPECT_THAT(whole, ElementsAre(3, 6, 9));
    EXPECT_THAT(arrived, ElementsAre(static_cast<float>((all.rank() + 2) % 3)));
  });
}

// Nobody is past the barrier before all are at it.
TEST(ThreadCommunicator, HoldsAllRanksAtABarrier) {
  ThreadWorld world(7, CollectiveAlgorithm::kRing);
  std::atomic<int> arrived = 0;
  on_all_ranks(world, [&](Communicator& all) {
    for (int round = 1; round <= 50; ++round) {
      arrived.fetch_add(1);
      all.barrier();
      EXPECT_GE(arrived.load(), 7 * round);
      all.barrier();
    }
  });
}

}  // namespace
}  // namespace ptdp
