// Trains on a device that does everything late, or at random times. Losses, gradients and weights
// must have the bits of a host, so that nothing is used too early or too late.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/lazy_backend.h"
#include "tests/runtime/training_harness.h"

namespace ptdp::testing {
namespace {

void expect_same_bits(const Layout& layout, const Job& job) {
  const Trained expected = train(layout, job);
  for (const Laziness laziness : {Laziness::kLatest, Laziness::kRandom}) {
    const std::string place =
        to_string(layout) + (laziness == Laziness::kLatest ? ", latest" : ", by chance");
    const auto device = std::make_shared<LazyDevice>(laziness);
    const Trained found = train(layout, job, [&] { return std::make_unique<LazyBackend>(device); });
    EXPECT_EQ(found.losses, expected.losses) << place;
    EXPECT_EQ(found.gradient_norms, expected.gradient_norms) << place;
    EXPECT_TRUE(found.gradients == expected.gradients) << place;
    EXPECT_TRUE(found.weights == expected.weights) << place;
  }
}

Job three_steps() {
  Job job = small_job();
  job.steps = 3;
  return job;
}

TEST(AsynchronousTraining, IsThatOfAHostOnOneRank) {
  expect_same_bits({}, three_steps());
  expect_same_bits({.recompute = Recompute::kFull}, three_steps());
}

TEST(AsynchronousTraining, IsThatOfAHostWithMessagesInTurn) {
  expect_same_bits({.pp = 2}, three_steps());
  expect_same_bits({.pp = 2, .vpp = 2, .schedule = "interleaved"}, three_steps());
  expect_same_bits({.pp = 4, .schedule = "zb-h1"}, three_steps());
}

TEST(AsynchronousTraining, IsThatOfAHostWithMessagesBeside) {
  const MessageMode beside = MessageMode::kOverlapped;
  expect_same_bits({.pp = 2, .messages = beside}, three_steps());
  expect_same_bits({.pp = 2, .vpp = 2, .schedule = "interleaved", .messages = beside},
                   three_steps());
  expect_same_bits({.pp = 4, .schedule = "zb-h1", .messages = beside}, three_steps());
  expect_same_bits({.pp = 2, .vpp = 2, .schedule = "zb-v", .messages = beside}, three_steps());
  expect_same_bits({.pp = 4, .schedule = "dualpipe", .messages = beside}, three_steps());
}

TEST(AsynchronousTraining, IsThatOfAHostWithTensorParallelism) {
  expect_same_bits({.tp = 2}, three_steps());
  expect_same_bits({.tp = 4, .sequence_parallel = true}, three_steps());
  expect_same_bits({.tp = 2, .pp = 2, .messages = MessageMode::kOverlapped}, three_steps());
  expect_same_bits(
      {.tp = 2, .pp = 2, .sequence_parallel = true, .messages = MessageMode::kOverlapped},
      three_steps());
}

// The host runs collectives in the order in which they run behind products
// (layers/tensor_overlap_test.cpp).
TEST(AsynchronousTraining, IsThatOfAHostWithTensorParallelismBehindProducts) {
  expect_same_bits({.tp = 2,
                    .pp = 2,
                    .sequence_parallel = true,
                    .overlaps_tensor = true,
                    .messages = MessageMode::kOverlapped},
                   three_steps());
}

TEST(AsynchronousTraining, IsThatOfAHostInEveryModeOfDataParallelism) {
  for (const DataMode mode :
       {DataMode::kBlocking, DataMode::kBlockingGathers, DataMode::kOverlapped}) {
    for (const int zero : {0, 1, 2, 3}) {
      expect_same_bits({.dp = 2, .zero_stage = zero, .data = mode, .num_buckets = 4},
                       three_steps());
    }
  }
  expect_same_bits({.dp = 4, .zero_stage = 1, .data = DataMode::kOverlapped, .num_buckets = 3},
                   three_steps());
}

TEST(AsynchronousTraining, IsThatOfAHostWithEverythingAtOnce) {
  Layout layout = {.tp = 2,
                   .pp = 2,
                   .dp = 2,
                   .schedule = "zb-h1",
                   .zero_stage = 1,
                   .messages = MessageMode::kOverlapped,
                   .data = DataMode::kOverlapped};
  expect_same_bits(layout, three_steps());
  layout.sequence_parallel = true;
  layout.recompute = Recompute::kSelective;
  expect_same_bits(layout, three_steps());
  Job job = three_steps();
  job.is_reproducible = true;
  job.type = DataType::kBFloat16;
  expect_same_bits(layout, job);
}

TEST(AsynchronousTraining, IsThatOfAHostWithShardedUnits) {
  expect_same_bits({.tp = 2, .dp = 2, .sequence_parallel = true, .zero_stage = 3}, three_steps());
  expect_same_bits({.dp = 2,
                    .schedule = "gpipe",
                    .zero_stage = 3,
                    .reshard_after_forward = false,
                    .recompute = Recompute::kFull},
                   three_steps());
  Job job = three_steps();
  job.type = DataType::kBFloat16;
  job.is_reproducible = true;
  expect_same_bits({.dp = 4, .schedule = "zb-h1", .zero_stage = 3}, job);
}

// Slices of more than 16 KiB stay where they are until their receiver takes them.
TEST(AsynchronousTraining, IsThatOfAHostWithLargeMessages) {
  Job job = three_steps();
  job.model = resolved({.num_layers = 2,
                        .hidden_size = 64,
                        .num_attention_heads = 4,
                        .vocab_size = 150,
                        .seq_length = 64},
                       "large");
  job.global_batch_size = 4;
  expect_same_bits({.tp = 2, .micro_batch_size = 2}, job);
  expect_same_bits({.tp = 2, .pp = 2, .sequence_parallel = true}, job);
  expect_same_bits({.tp = 2,
                    .pp = 2,
                    .zero_stage = 1,
                    .messages = MessageMode::kOverlapped,
                    .data = DataMode::kOverlapped},
                   job);
}

}  // namespace
}  // namespace ptdp::testing
