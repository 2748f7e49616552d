// Tests of the closed formulas of pipelines: bubble, microbatch size, chunks in flight.
#include "cost_model/memory/pipeline_formulas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

namespace ptdp {
namespace {

// By hand: p = 64 stages, m = 768/6 = 128 microbatches, 63/128.
TEST(BubbleFraction, OfTheTrillionParameterRunAtBatch768IsHalf) {
  EXPECT_NEAR(bubble_fraction(64, 1, 768.0 / 6.0), 0.492, 0.0005);
}

TEST(BubbleFraction, FallsWithTheNumberOfChunks) {
  EXPECT_DOUBLE_EQ(bubble_fraction(8, 4, 16.0), bubble_fraction(8, 1, 16.0) / 4.0);
}

// SC21 section 3.2: d = 1, p = n/t. SC21 section 3.3.1: t = 1, p = n/d, m = b'/d.
TEST(BubbleFraction, HasItsTensorAndDataParallelForms) {
  EXPECT_DOUBLE_EQ(tensor_pipeline_bubble_fraction(64, 8, 32.0), bubble_fraction(8, 1, 32.0));
  EXPECT_DOUBLE_EQ(data_pipeline_bubble_fraction(64, 8, 256.0),
                   bubble_fraction(64 / 8, 1, 256.0 / 8.0));
}

// SC21 figure 7 (TFLOP/s of a billion-parameter model by microbatch size) and figure 8 (the best
// one for p = 8): t(b) is proportional to b / throughput.
TEST(BestMicroBatchSize, IsFourInFigureEight) {
  std::vector<MicrobatchTime> times;
  for (const auto& [size, tflops] : std::array<std::pair<int, double>, 5>{
           {{1, 68.0}, {2, 78.0}, {4, 86.0}, {8, 89.0}, {16, 91.0}}}) {
    times.push_back({.micro_batch_size = size, .forward_and_backward = Seconds(size / tflops)});
  }
  EXPECT_EQ(best_micro_batch_size(times, 128.0, 8), 4);
  EXPECT_EQ(best_micro_batch_size(times, 512.0, 8), 4);
}

// By hand, eight sequences on one stage: eight microbatches of 1 s or four of 2 s.
TEST(BestMicroBatchSize, IsTheSmallerOfTwoThatTakeAsLong) {
  const std::vector<MicrobatchTime> times = {
      {.micro_batch_size = 2, .forward_and_backward = Seconds(2.0)},
      {.micro_batch_size = 1, .forward_and_backward = Seconds(1.0)},
      {.micro_batch_size = 4, .forward_and_backward = Seconds(4.5)}};
  EXPECT_EQ(best_micro_batch_size(times, 8.0, 1), 1);
  EXPECT_EQ(best_micro_batch_size(std::span(times).first(1), 8.0, 1), 2);
  // Two stages: (8 + 1)·1, (4 + 1)·2, (2 + 1)·4.5.
  EXPECT_EQ(best_micro_batch_size(times, 8.0, 2), 1);
}

// By hand: (16/2 + 4 − 1) · 3 s.
TEST(MicrobatchedTime, CountsFillAndDrain) {
  EXPECT_DOUBLE_EQ(microbatched_time(16.0, 2, 4, Seconds(3.0)).value(), 33.0);
}

TEST(BestNumCheckpoints, MinimisesTheMemory) {
  const Bytes input(2.0);
  const Bytes intermediate(36.0);
  const double best = best_num_checkpoints(50, input, intermediate);
  EXPECT_DOUBLE_EQ(best, 30.0);  // sqrt(50 · 36/2)
  const Bytes memory = checkpointed_activations(best, 50, input, intermediate);
  for (const double other : {best * 0.9, best * 1.1, 1.0, 50.0}) {
    EXPECT_LT(memory, checkpointed_activations(other, 50, input, intermediate)) << other;
  }
}

/// Returns the activations alive at a rank's worst moment, by walking Megatron-LM's order. That
/// order is a warm-up of forward passes, then one forward and one backward in turn, then the
/// remaining backward passes.
int peak_of_walk(int warm_up, int total) {
  int alive = 0;
  int peak = 0;
  int forwards = 0;
  for (; forwards < std::min(warm_up, total); ++forwards) {
    peak = std::max(peak, ++alive);
  }
  for (; forwards < total; ++forwards) {
    peak = std::max(peak, ++alive);
    --alive;
  }
  return peak;
}

TEST(ChunksInFlight, AreWhatTheScheduleHoldsAtItsPeak) {
  for (const int pp : {2, 3, 4, 8}) {
    for (const int vpp : {1, 2, 3}) {
      for (const int groups : {1, 2, 4}) {
        const int microbatches = groups * pp;
        for (int rank = 0; rank < pp; ++rank) {
          // Warm-up as in Megatron-LM schedules.py, both schedules; the interleaved one warms up
          // with everything where there are as many microbatches as stages.
          const int interleaved =
              microbatches == pp ? microbatches * vpp : 2 * (pp - rank - 1) + (vpp - 1) * pp;
          const int warm_up = vpp == 1 ? pp - rank - 1 : interleaved;
          EXPECT_DOUBLE_EQ(chunks_in_flight(pp, vpp, rank, microbatches),
                           peak_of_walk(warm_up, microbatches * vpp))
              << "pp " << pp << " vpp " << vpp << " m " << microbatches << " rank " << rank;
        }
      }
    }
  }
}

// By hand: 4 stages of 2 chunks and 4 microbatches hold 8 chunks each; with 8 microbatches the last
// rank warms up with 4 and holds one more.
TEST(ChunksInFlight, AreAllOfThemWhereMicrobatchesAreAsManyAsStages) {
  EXPECT_DOUBLE_EQ(chunks_in_flight(4, 2, 3, 4.0), 8.0);
  EXPECT_DOUBLE_EQ(chunks_in_flight(4, 2, 3, 8.0), 5.0);
}

TEST(ChunksInFlight, AreTheSameForAnyNumberOfMicrobatchesFromTheDepthOn) {
  EXPECT_DOUBLE_EQ(chunks_in_flight(8, 1, 0, 8.0), chunks_in_flight(8, 1, 0, 16.0));
  EXPECT_DOUBLE_EQ(chunks_in_flight(8, 1, 0, 8.0), chunks_in_flight(8, 1, 0, 64.0));
}

}  // namespace
}  // namespace ptdp
