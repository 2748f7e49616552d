// Tests what is reported of a step that did not send or hold what it should.
#include "runtime/run/step_expectation.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/runtime/transport/test_ranks.h"

namespace ptdp {
namespace {

using testing::ElementsAre;

// More than 15 % and more than 2.5 MB away, on either side.
TEST(PeakDiffers, BeyondAShareAndALeastDifferenceAlone) {
  constexpr double mega = 1e6;
  for (const double sign : {-1.0, 1.0}) {
    EXPECT_FALSE(peak_differs(Bytes(100 * mega), Bytes((100 + sign * 14.9) * mega)));
    EXPECT_TRUE(peak_differs(Bytes(100 * mega), Bytes((100 + sign * 15.1) * mega)));
    EXPECT_FALSE(peak_differs(Bytes(4 * mega), Bytes((4 + sign * 2.4) * mega)));
    EXPECT_TRUE(peak_differs(Bytes(4 * mega), Bytes((4 + sign * 2.6) * mega)));
  }
  EXPECT_FALSE(peak_differs(Bytes(5 * mega), Bytes(5 * mega)));
  EXPECT_TRUE(peak_differs(Bytes(0.0), Bytes(3 * mega)));
}

/// Returns the record of rank r of three, on two pipeline ranks. It sends 100 + r bytes of a
/// message forward and holds 10, 30 or 20 MB.
RankRecord sending_record(int rank) {
  RankRecord record;
  record.pipeline_forward.bytes[static_cast<std::size_t>(CollectiveKind::kSend)] = 100 + rank;
  record.tied.bytes[static_cast<std::size_t>(CollectiveKind::kAllReduce)] = 7;
  record.peak_bytes = std::vector<std::int64_t>{10'000'000, 30'000'000, 20'000'000}[rank];
  return record;
}

/// Returns the differences that each of three ranks is told; expects all to be told the same.
std::vector<std::string> told_of(const StepExpectation& expected, std::int64_t steps) {
  std::vector<std::vector<std::string>> lines(3);
  on_ranks(3, CollectiveAlgorithm::kRing, [&](const TestRank& rank) {
    const int number = rank.all.rank();
    const RankRecord record = sending_record(number);
    lines[static_cast<std::size_t>(number)] = find_differences(
        expected, {.record = &record, .steps = steps, .pipeline_rank = number == 0 ? 0 : 1},
        {.world = rank.all, .backend = rank.backend});
  });
  EXPECT_EQ(lines[1], lines[0]);
  EXPECT_EQ(lines[2], lines[0]);
  return lines[0];
}

// 303 bytes forward and 21 of the tied embedding in all; at most 10 and 30 MB.
TEST(FindDifferences, ComparesSumsOfAllRanksAndTheLargestOfAStage) {
  StepExpectation expected{.peak_memory = {Bytes(10e6), Bytes(30e6)}};
  auto& forward = expected.sent[1][static_cast<std::size_t>(CollectiveKind::kSend)];
  auto& tied = expected.sent[4][static_cast<std::size_t>(CollectiveKind::kAllReduce)];
  forward = 303;
  tied = 21;
  EXPECT_THAT(told_of(expected, 1), ElementsAre());
  forward = 101;
  tied = 7;
  EXPECT_THAT(told_of(expected, 3), ElementsAre());
  tied = 8;
  EXPECT_THAT(told_of(expected, 3),
              ElementsAre("tied all-reduce: 24 bytes expected in 3 steps, 21 sent"));
  forward = 302;
  tied = 21;
  expected.sent[3][static_cast<std::size_t>(CollectiveKind::kReduceScatter)] = 4;
  expected.peak_memory = {Bytes(20e6), Bytes(24e6)};
  EXPECT_THAT(told_of(expected, 1),
              ElementsAre("pipeline_forward send: 302 bytes expected in 1 step, 303 sent",
                          "data reduce-scatter: 4 bytes expected in 1 step, 0 sent",
                          "peak memory of rank 0 of the pipeline: 20.0 MB expected, 10.0 MB held",
                          "peak memory of rank 1 of the pipeline: 24.0 MB expected, 30.0 MB held"));
  expected.peak_memory.clear();  // not known
  EXPECT_EQ(told_of(expected, 1).size(), 2U);
}

}  // namespace
}  // namespace ptdp
