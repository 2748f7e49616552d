// Tests that ranks on emulated GPUs of their own train as ranks on a host do.
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_backend.h"
#include "tests/runtime/emulated_nccl/emulation.h"
#include "tests/runtime/training_harness.h"

namespace ptdp::testing {
namespace {

/// Returns a small job, because only one thread of an emulated GPU runs at a time.
Job tiny_job() {
  return {.model = resolved({.num_layers = 4,
                             .hidden_size = 8,
                             .num_attention_heads = 2,
                             .vocab_size = 40,
                             .seq_length = 4},
                            "tiny_job"),
          .global_batch_size = 4,
          .type = DataType::kFloat32,
          .steps = 2};
}

class TrainingOverNccl : public ::testing::TestWithParam<Layout> {};

TEST_P(TrainingOverNccl, ComputesWhatOneRankOfAHostDoes) {
  const Layout& layout = GetParam();
  Job job = tiny_job();
  ASSERT_TRUE(exists(layout, job)) << to_string(layout);
  const Trained expected = train({}, job);
  job.uses_nccl = true;
  emulated_nccl::reset();
  emulated_gpu::set_devices(static_cast<int>(layout.config().world_size()));
  const Trained found = train(layout, job, [](int rank) {
    return make_cuda_backend({.device = rank, .is_deterministic = true});
  });
  ASSERT_EQ(found.losses.size(), expected.losses.size());
  for (std::size_t step = 0; step < found.losses.size(); ++step) {
    EXPECT_NEAR(found.losses[step], expected.losses[step], 1e-5 * expected.losses[step]);
  }
  EXPECT_LE(largest_difference(found.gradients, expected.gradients), 1e-5);
  EXPECT_EQ(emulated_nccl::faults(), std::vector<std::string>());
  EXPECT_EQ(emulated_nccl::communicators(), 0);
}

// A world of one, each dimension alone, and what runs beside compute.
INSTANTIATE_TEST_SUITE_P(
    Layouts, TrainingOverNccl,
    ::testing::Values(Layout{}, Layout{.tp = 2, .sequence_parallel = true},
                      Layout{.dp = 2, .zero_stage = 1},
                      Layout{.dp = 4, .zero_stage = 2, .data = DataMode::kOverlapped},
                      Layout{.tp = 2, .dp = 2, .sequence_parallel = true, .zero_stage = 3},
                      Layout{.pp = 4, .messages = MessageMode::kOverlapped},
                      Layout{.pp = 2, .vpp = 2, .schedule = "zb-v"},
                      Layout{.pp = 2, .schedule = "dualpipe"},
                      Layout{.pp = 2, .schedule = "dualpipe", .messages = MessageMode::kOverlapped},
                      Layout{.pp = 2,
                             .dp = 2,
                             .zero_stage = 1,
                             .messages = MessageMode::kOverlapped,
                             .data = DataMode::kOverlapped},
                      Layout{.tp = 2,
                             .pp = 2,
                             .vpp = 2,
                             .schedule = "interleaved",
                             .sequence_parallel = true,
                             .messages = MessageMode::kOverlapped}));

// Three ranks divide neither a layer of 872 parameters nor the ends of the model. Calls part by
// part would be of ncclReduce and ncclBroadcast.
TEST(ShardedTrainingOverNccl, GathersAndReducesInEqualParts) {
  Job job = tiny_job();
  job.global_batch_size = 3;
  const Trained expected = train({}, job);
  job.uses_nccl = true;
  emulated_gpu::set_devices(3);
  for (const int zero : {1, 2, 3}) {
    emulated_nccl::reset();
    const Trained found = train({.dp = 3, .zero_stage = zero}, job, [](int rank) {
      return make_cuda_backend({.device = rank, .is_deterministic = true});
    });
    EXPECT_LE(largest_difference(found.gradients, expected.gradients), 1e-5) << zero;
    EXPECT_GT(emulated_nccl::calls("ncclReduceScatter"), 0) << zero;
    EXPECT_GT(emulated_nccl::calls("ncclAllGather"), 0) << zero;
    EXPECT_EQ(emulated_nccl::calls("ncclReduce"), 0) << zero;
    EXPECT_EQ(emulated_nccl::calls("ncclBroadcast"), 0) << zero;
    EXPECT_EQ(emulated_nccl::faults(), std::vector<std::string>()) << zero;
  }
}

}  // namespace
}  // namespace ptdp::testing
