// Tests that a GPU trains as a host does.
#include "tests/runtime/cuda/training_on_gpu.h"
#include "tests/runtime/model_types.h"

namespace ptdp::testing {
namespace {

/// Returns a job with two layers, because the emulated GPU runs one thread at a time.
Job tiny_job(DataType type) {
  Job job = small_job();
  job.model.num_layers = 2;
  job.global_batch_size = 4;
  job.type = type;
  return job;
}

TEST_F(OnGpuTraining, HasTheLossesOfAHostOverTwentySteps) {
  Job job = tiny_job(DataType::kFloat32);
  job.steps = 20;
  expect_trains_alike(train_on_gpu({}, job), train({}, job), 1e-5, "f32");
}

// Gradients of 16-bit numbers: the host rounds at other places.
TEST_F(OnGpuTraining, TrainsInSixteenBitsAsAHostDoes) {
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
    Job job = tiny_job(type);
    job.steps = 5;
    const Trained found = train_on_gpu({}, job);
    const Trained expected = train({}, job);
    ASSERT_EQ(found.losses.size(), expected.losses.size());
    for (std::size_t step = 0; step < found.losses.size(); ++step) {
      EXPECT_NEAR(found.losses[step], expected.losses[step], 1e-2 * expected.losses[step])
          << name_of(type) << ", step " << step;
    }
  }
}

TEST_F(OnGpuTraining, GivesTheSameBitsTwice) {
  Job job = tiny_job(DataType::kBFloat16);
  job.steps = 3;
  const Layout layout{.pp = 2};
  const Trained first = train_on_gpu(layout, job);
  const Trained second = train_on_gpu(layout, job);
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.weights, second.weights);
}

// Ranks that share the GPU; messages and reductions beside compute where the layout says so.
TEST_F(OnGpuTraining, ComputesTheSameInEveryLayout) {
  Job job = tiny_job(DataType::kFloat32);
  job.steps = 2;
  const Trained alone = train({}, job);
  for (const Layout& layout :
       {Layout{.tp = 2}, Layout{.tp = 2, .sequence_parallel = true}, Layout{.dp = 2},
        Layout{.pp = 2, .recompute = Recompute::kSelective},
        Layout{.dp = 2, .zero_stage = 1, .data = DataMode::kOverlapped},
        Layout{.dp = 2, .zero_stage = 2}, Layout{.tp = 2, .dp = 2, .zero_stage = 3},
        Layout{.pp = 2, .dp = 2, .messages = MessageMode::kOverlapped},
        Layout{.pp = 2, .schedule = "zb-h1", .recompute = Recompute::kFull}}) {
    expect_trains_alike(train_on_gpu(layout, job), alone, 1e-5, to_string(layout));
  }
}

// Without dropout the norms in front of branches sum the gradients of the biases at their ends:
// layer norms as they pass over them, and RMS norms of rows as short as these in a pass of their
// own.
TEST_F(OnGpuTraining, SumsBiasGradientsWithNorms) {
  Job job = tiny_job(DataType::kFloat32);
  job.dropout = 0.0;
  job.steps = 2;
  for (const Normalization normalization : {Normalization::kLayerNorm, Normalization::kRmsNorm}) {
    job.model.normalization = normalization;
    const Trained alone = train({}, job);
    for (const Layout& layout :
         {Layout{}, Layout{.tp = 2}, Layout{.tp = 2, .dp = 2, .sequence_parallel = true},
          Layout{.pp = 2, .schedule = "zb-h1", .recompute = Recompute::kFull}}) {
      expect_trains_alike(train_on_gpu(layout, job), alone, 1e-5, to_string(layout));
    }
  }
}

// GPT-NeoX's GELU is exact, which is no epilogue, and its branches are parallel.
TEST_F(OnGpuTraining, ComputesTheSameWithoutEpilogues) {
  Job job = tiny_job(DataType::kFloat32);
  job.steps = 2;
  const std::vector<Layout> layouts = {
      Layout{.recompute = Recompute::kFull},
      Layout{.tp = 2, .sequence_parallel = true, .overlaps_tensor = true},
      Layout{.pp = 2, .schedule = "zb-h1"}};
  Trained alone = train({}, job);
  for (const Layout& layout : layouts) {
    expect_trains_alike(train_without_epilogues(layout, job), alone, 1e-5, to_string(layout));
  }
  job.model = as_type("gpt_neox", job.model);
  job.dropout = 0.0;
  alone = train({}, job);
  for (const Layout& layout : layouts) {
    expect_trains_alike(train_on_gpu(layout, job), alone, 1e-5, "gpt_neox" + to_string(layout));
  }
}

// GELU is an epilogue of products in 16 bits: of rows of 96 or 48 elements, and not of 90 or 45.
TEST_F(OnGpuTraining, TrainsInSixteenBitsInLayoutsWithAndWithoutEpiloguesOfGelu) {
  for (const int width : {96, 90}) {
    Job job = tiny_job(DataType::kBFloat16);
    job.model.ffn_hidden_size = width;
    job.steps = 3;
    const Trained expected = train({}, job);
    for (const Layout& layout :
         {Layout{.tp = 2, .sequence_parallel = true, .overlaps_tensor = true},
          Layout{.recompute = Recompute::kFull}, Layout{.pp = 2, .schedule = "zb-h1"}}) {
      const Trained found = train_on_gpu(layout, job);
      ASSERT_EQ(found.losses.size(), expected.losses.size());
      for (std::size_t step = 0; step < found.losses.size(); ++step) {
        EXPECT_NEAR(found.losses[step], expected.losses[step], 1e-2 * expected.losses[step])
            << width << to_string(layout) << ", step " << step;
      }
      EXPECT_LE(largest_difference(found.gradients, expected.gradients), 5e-2)
          << width << to_string(layout);
    }
  }
}

// Four ranks share two key heads, whose parts are normed before they are gathered.
TEST_F(OnGpuTraining, NormsOverTheHeadsOfAllRanks) {
  for (const char* type : {"olmo2", "olmo2_few_keys"}) {
    Job job = tiny_job(DataType::kFloat32);
    job.model = as_type(type, job.model);
    job.dropout = 0.0;
    job.steps = 2;
    const Trained alone = train({}, job);
    for (const Layout& layout :
         {Layout{}, Layout{.tp = 2, .recompute = Recompute::kFull},
          Layout{.tp = 4, .sequence_parallel = true, .overlaps_tensor = true}}) {
      expect_trains_alike(train_on_gpu(layout, job), alone, 1e-5, type + to_string(layout));
    }
  }
}

}  // namespace
}  // namespace ptdp::testing
