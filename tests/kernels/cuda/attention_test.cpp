// Tests a GPU's attention by the project's kernels and by cuDNN, in graphs, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/attention_passes.h"

namespace ptdp {
namespace {

using GpuAttention = OnBackend;

// Lengths, heads and types that cuDNN takes.
TEST_F(GpuAttention, EqualsTheDefinitionWhoeverComputesIt) {
  const std::unique_ptr<Backend> own = make_cuda_backend({.uses_cudnn = false});
  const std::unique_ptr<Backend> fast = make_cuda_backend({.is_deterministic = false});
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
    const Attention plain = usual({.seq_length = 128,
                                   .batch = 1,
                                   .heads = 2,
                                   .total_heads = 2,
                                   .head_size = type == DataType::kBFloat16 ? 128 : 64});
    Attention special = plain;
    special.key_heads = 1;
    special.window = 33;
    special.scale = 0.2;
    for (const Attention& shape : {plain, special}) {
      const AttentionInputs inputs(shape, type);
      const AttentionResults expected = naive_attention(shape, inputs);
      for (Backend* const by : {own.get(), fast.get(), &backend()}) {
        expect_near(both_passes(*by, shape, type, inputs), expected, type, shape);
      }
    }
  }
}

// A build without cuDNN is told by a test that is skipped, which tools/gpu-check counts.
TEST_F(GpuAttention, IsLeftToCudnnAtTheSizesOfTraining) {
  std::vector<std::string> notes;
  const std::unique_ptr<Backend> backend =
      make_cuda_backend({.on_note = [&](const std::string& note) { notes.push_back(note); }});
  const auto compute = [&](const Attention& shape) {
    both_passes(*backend, shape, DataType::kBFloat16, AttentionInputs(shape, DataType::kBFloat16));
  };
  // A build without cuDNN says so at its first attention; these sizes take an emulated GPU a
  // minute.
  compute(usual({.seq_length = 128, .batch = 1, .heads = 2, .total_heads = 2, .head_size = 64}));
  if (notes.size() == 1 && notes.front().ends_with("built without cuDNN")) {
    GTEST_SKIP() << notes.front();
  }
  for (const std::int64_t head_size : {64, 96, 128}) {
    Attention shape = usual(
        {.seq_length = 1024, .batch = 1, .heads = 2, .total_heads = 2, .head_size = head_size});
    compute(shape);
    shape.key_heads = 1;
    shape.window = 256;
    compute(shape);
  }
  EXPECT_EQ(notes, std::vector<std::string>());
}

// What cuDNN does not compute is said once, with the reason.
TEST_F(GpuAttention, SaysWhyItIsNotLeftToCudnn) {
  std::vector<std::string> notes;
  const std::unique_ptr<Backend> backend =
      make_cuda_backend({.on_note = [&](const std::string& note) { notes.push_back(note); }});
  Attention shape =
      usual({.seq_length = 128, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 8});
  shape.soft_cap = 30.0;
  for (int time = 0; time < 2; ++time) {
    both_passes(*backend, shape, DataType::kBFloat16, AttentionInputs(shape, DataType::kBFloat16));
  }
  const std::string begin = "attention by own kernels, several times slower than cuDNN's: ";
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes.front(), testing::AnyOf(begin + "it does not cap scores, which this model does",
                                            begin + "built without cuDNN"));
}

TEST_F(GpuAttention, GivesTheSameBitsInAGraph) {
  const Attention shape = usual({.seq_length = 128,
                                 .batch = 1,
                                 .heads = 2,
                                 .key_heads = 1,
                                 .total_heads = 2,
                                 .head_size = 64});
  const DataType type = DataType::kBFloat16;
  const AttentionInputs inputs(shape, type);
  const AttentionResults expected = both_passes(backend(), shape, type, inputs);
  const std::unique_ptr<Backend> graphs =
      make_cuda_backend({.is_deterministic = true, .uses_graphs = true});
  for (int time = 0; time < 2; ++time) {
    AttentionPasses passes(*graphs, shape, type, inputs);
    graphs->run_as_graph(/*key=*/1, [&] { passes.compute(); });
    EXPECT_EQ(passes.results(), expected);
  }
}

// Own kernels read and write 16 bytes at once where vectors allow it. Rows end in a part of a tile.
TEST_F(GpuAttention, GivesTheSameBitsWhereverItsVectorsBegin) {
  const std::unique_ptr<Backend> own = make_cuda_backend({.uses_cudnn = false});
  constexpr std::array<std::int64_t, 3> head_sizes = {8, 72, 200};
  for_each_type_and_case(head_sizes, [&](DataType type, std::int64_t head_size) {
    const Attention shape = usual({.seq_length = 70,
                                   .batch = 2,
                                   .heads = 2,
                                   .key_heads = 1,
                                   .total_heads = 2,
                                   .head_size = head_size});
    const AttentionInputs inputs(shape, type);
    EXPECT_EQ(both_passes(*own, shape, type, inputs, /*offset=*/1),
              both_passes(*own, shape, type, inputs))
        << name_of(type) << " d=" << head_size;
  });
}

TEST_F(GpuAttention, RefusesHeadsThatItHasNoKernelsFor) {
  const Attention shape =
      usual({.seq_length = 1, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 257});
  try {
    both_passes(backend(), shape, DataType::kFloat32, AttentionInputs(shape, DataType::kFloat32));
    FAIL() << "took heads of 257";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "attention on a GPU: expected heads of 1 to 256 elements, got 257");
  }
}

}  // namespace
}  // namespace ptdp
