// Fused causal attention of a GPU, by own kernels and by cuDNN, against the plain one of the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/reference_attention.h"
#include "tests/kernels/cuda/device_values.h"

namespace ptdp {
namespace {

using GpuAttention = OnGpu;

std::int64_t gpu_rows(const Attention& shape) {
  return shape.seq_length * shape.batch * shape.heads;
}
std::int64_t gpu_out_size(const Attention& shape) {
  return gpu_rows(shape) * shape.head_size;
}
Attention dropping(Attention shape) {
  shape.dropout = {.probability = 0.2, .key = 77};
  return shape;
}

/// What both passes take, exact in a type.
struct AttentionInputs {
  AttentionInputs(const Attention& shape, DataType type)
      : qkv(random_values(3 * gpu_out_size(shape), 1, type)),
        dout(random_values(gpu_out_size(shape), 2, type)) {}

  Values qkv, dout;
};
struct AttentionResults {
  Values out, log_sum, dqkv;
};

AttentionResults expected_results(const Attention& shape, const AttentionInputs& inputs) {
  AttentionResults results{Values(inputs.dout.size()),
                           Values(static_cast<std::size_t>(gpu_rows(shape))),
                           Values(inputs.qkv.size())};
  reference_attention(shape, inputs.qkv, results.out, results.log_sum);
  reference_attention_backward(shape, inputs.qkv, inputs.dout, results.dqkv);
  return results;
}

/// Both passes on a GPU whose buffers begin `offset` elements after aligned memory; results go to
/// memory that is full of what is not a number.
class AttentionRun {
 public:
  AttentionRun(Backend& gpu, const Attention& shape, DataType type, std::int64_t offset = 0)
      : gpu_(gpu),
        shape_(shape),
        offset_(offset),
        qkv_(gpu, type, 3 * gpu_out_size(shape) + offset),
        out_(gpu, type, gpu_out_size(shape) + offset),
        log_sum_(gpu, DataType::kFloat32, gpu_rows(shape) + offset),
        dout_(gpu, type, gpu_out_size(shape) + offset),
        dqkv_(gpu, type, 3 * gpu_out_size(shape) + offset) {}

  void take(const AttentionInputs& inputs) {
    write(qkv_, inputs.qkv);
    write(dout_, inputs.dout);
    for (const Tensor* const result : {&out_, &log_sum_, &dqkv_}) {
      write(*result, Values(static_cast<std::size_t>(part(*result).size),
                            std::numeric_limits<double>::quiet_NaN()));
    }
  }
  void compute(bool replaces_qkv = false) {
    gpu_.attention(shape_, part(qkv_), part(out_), part(log_sum_));
    gpu_.attention_backward(shape_, part(qkv_), part(out_), part(log_sum_), part(dout_),
                            part(replaces_qkv ? qkv_ : dqkv_));
  }
  [[nodiscard]] AttentionResults results(bool replaces_qkv = false) {
    return {read(out_), read(log_sum_), read(replaces_qkv ? qkv_ : dqkv_)};
  }

 private:
  [[nodiscard]] Buffer part(const Tensor& tensor) const {
    const Buffer all = tensor;
    return all.slice(offset_, all.size - offset_);
  }
  void write(const Tensor& tensor, const Values& values) {
    const Tensor staged = tensor_of(host_, part(tensor).type, values);
    gpu_.copy_in(staged.buffer().data, part(tensor));
  }
  [[nodiscard]] Values read(const Tensor& tensor) {
    const Tensor staged(host_, part(tensor).type, part(tensor).size);
    gpu_.copy_out(part(tensor), staged.buffer().data);
    return read_values(staged);
  }

  CpuBackend host_;
  Backend& gpu_;
  Attention shape_;
  std::int64_t offset_;
  Tensor qkv_, out_, log_sum_, dout_, dqkv_;
};

AttentionResults compute_attention(Backend& gpu, const Attention& shape, DataType type,
                                   const AttentionInputs& inputs, std::int64_t offset = 0) {
  AttentionRun run(gpu, shape, type, offset);
  run.take(inputs);
  run.compute();
  return run.results();
}

void expect_near_results(const AttentionResults& found, const AttentionResults& expected,
                         DataType type, const Attention& shape) {
  const std::string what = std::string(name_of(type)) + " s=" + std::to_string(shape.seq_length) +
                           " d=" + std::to_string(shape.head_size) +
                           " p=" + std::to_string(shape.dropout.probability);
  expect_near_in_norm(found.out, expected.out, allowed_error(type), what + " out");
  // Of scores in f32, whatever the type.
  expect_near_in_norm(found.log_sum, expected.log_sum, 1e-5, what + " log_sum");
  expect_near_in_norm(found.dqkv, expected.dqkv, allowed_error(type), what + " dqkv");
}

void expect_same_bits(const AttentionResults& found, const AttentionResults& expected) {
  EXPECT_EQ(found.out, expected.out);
  EXPECT_EQ(found.log_sum, expected.log_sum);
  EXPECT_EQ(found.dqkv, expected.dqkv);
}

/// Heads of one element, tiles that end anywhere in sequences and heads, several heads and
/// sequences, heads of a larger layer, none.
std::vector<Attention> odd_shapes() {
  return {{.seq_length = 1, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 1},
          {.seq_length = 5, .batch = 2, .heads = 3, .total_heads = 3, .head_size = 4},
          {.seq_length = 64, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 64},
          {.seq_length = 130,
           .batch = 2,
           .heads = 1,
           .first_head = 4,
           .total_heads = 8,
           .head_size = 19,
           .first_sample = 3},
          {.seq_length = 67, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 65},
          {.seq_length = 9, .batch = 1, .heads = 2, .total_heads = 2, .head_size = 256},
          {.seq_length = 0, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 8},
          {.seq_length = 8, .batch = 2, .heads = 0, .total_heads = 4, .head_size = 8}};
}

TEST_F(GpuAttention, EqualsTheDefinitionForwardAndBackward) {
  for (const Attention& plain : odd_shapes()) {
    for (const Attention& shape : {plain, dropping(plain)}) {
      const DataType type = DataType::kFloat32;
      const AttentionInputs inputs(shape, type);
      expect_near_results(compute_attention(gpu(), shape, type, inputs),
                          expected_results(shape, inputs), type, shape);
    }
  }
}

TEST_F(GpuAttention, EqualsTheDefinitionInEveryType) {
  const Attention odd{.seq_length = 67, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 20};
  for (const DataType type : kGpuTypes) {
    for (const Attention& shape : {odd, dropping(odd)}) {
      const AttentionInputs inputs(shape, type);
      expect_near_results(compute_attention(gpu(), shape, type, inputs),
                          expected_results(shape, inputs), type, shape);
    }
  }
}

// Lengths, heads and types that cuDNN takes.
TEST_F(GpuAttention, EqualsTheDefinitionWhoeverComputesIt) {
  const std::unique_ptr<Backend> own = make_cuda_backend({.uses_cudnn = false});
  const std::unique_ptr<Backend> fast = make_cuda_backend({.is_deterministic = false});
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
    const Attention shape{.seq_length = 128,
                          .batch = 1,
                          .heads = 1,
                          .total_heads = 1,
                          .head_size = type == DataType::kBFloat16 ? 128 : 64};
    const AttentionInputs inputs(shape, type);
    const AttentionResults expected = expected_results(shape, inputs);
    for (Backend* const backend : {own.get(), fast.get(), &gpu()}) {
      expect_near_results(compute_attention(*backend, shape, type, inputs), expected, type, shape);
    }
  }
}

// Sequences and heads lie between each other's positions.
TEST_F(GpuAttention, TellsHeadsAndSequencesApart) {
  const Attention shape{
      .seq_length = 128, .batch = 2, .heads = 2, .total_heads = 2, .head_size = 8};
  const AttentionInputs inputs(shape, DataType::kBFloat16);
  expect_near_results(compute_attention(gpu(), shape, DataType::kBFloat16, inputs),
                      expected_results(shape, inputs), DataType::kBFloat16, shape);
}

TEST_F(GpuAttention, TakesBuffersThatBeginAnywhere) {
  const Attention shape{
      .seq_length = 128, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 8};
  for (const DataType type : kGpuTypes) {
    const AttentionInputs inputs(shape, type);
    expect_near_results(compute_attention(gpu(), shape, type, inputs, /*offset=*/1),
                        expected_results(shape, inputs), type, shape);
  }
}

TEST_F(GpuAttention, MayReplaceItsInputByItsGradient) {
  const Attention plain{
      .seq_length = 128, .batch = 1, .heads = 2, .total_heads = 2, .head_size = 16};
  Attention odd = plain;
  odd.seq_length = 70;
  odd.head_size = 5;
  for (const Attention& shape : {plain, dropping(odd)}) {
    const AttentionInputs inputs(shape, DataType::kBFloat16);
    AttentionRun run(gpu(), shape, DataType::kBFloat16);
    run.take(inputs);
    run.compute(/*replaces_qkv=*/true);
    expect_same_bits(run.results(/*replaces_qkv=*/true),
                     compute_attention(gpu(), shape, DataType::kBFloat16, inputs));
  }
}

// Heads of a layer on two ranks, and sequences of a batch on two: the bits of one rank that has
// them all, dropout included.
TEST_F(GpuAttention, GivesAHeadTheSameBitsWhoeverHoldsIt) {
  const Attention all =
      dropping({.seq_length = 66, .batch = 2, .heads = 2, .total_heads = 2, .head_size = 8});
  Attention part = all;
  part.heads = 1;
  part.first_head = 1;
  part.batch = 1;
  part.first_sample = 1;
  /// The last quarter of every position's heads.
  const auto last = [](const Values& values, std::int64_t width) {
    Values found;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
      if (i % width >= width / 4 * 3) {
        found.push_back(values[static_cast<std::size_t>(i)]);
      }
    }
    return found;
  };
  const DataType type = DataType::kFloat32;
  const AttentionInputs inputs(all, type);
  const AttentionResults whole = compute_attention(gpu(), all, type, inputs);
  AttentionInputs of_part = inputs;
  of_part.qkv = last(inputs.qkv, 96);
  of_part.dout = last(inputs.dout, 32);
  const AttentionResults found = compute_attention(gpu(), part, type, of_part);
  EXPECT_EQ(found.out, last(whole.out, 32));
  EXPECT_EQ(found.dqkv, last(whole.dqkv, 96));
}

TEST_F(GpuAttention, GivesEqualBitsEachTime) {
  const Attention plain{
      .seq_length = 128, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 64};
  for (const Attention& shape : {plain, dropping(plain)}) {
    const AttentionInputs inputs(shape, DataType::kBFloat16);
    expect_same_bits(compute_attention(gpu(), shape, DataType::kBFloat16, inputs),
                     compute_attention(gpu(), shape, DataType::kBFloat16, inputs));
  }
}

TEST_F(GpuAttention, GivesTheSameBitsInAGraph) {
  const Attention shape{
      .seq_length = 128, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 64};
  const DataType type = DataType::kBFloat16;
  const AttentionInputs inputs(shape, type);
  const AttentionResults expected = compute_attention(gpu(), shape, type, inputs);
  const std::unique_ptr<Backend> graphs =
      make_cuda_backend({.is_deterministic = true, .uses_graphs = true});
  AttentionRun run(*graphs, shape, type);
  for (int time = 0; time < 2; ++time) {
    run.take(inputs);
    graphs->run_as_graph(/*key=*/1, [&] { run.compute(); });
    expect_same_bits(run.results(), expected);
  }
}

TEST_F(GpuAttention, StaysFiniteWhenScoresAreLarge) {
  const Attention shape{
      .seq_length = 128, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 16};
  for (const DataType type : kGpuTypes) {
    AttentionInputs inputs(shape, type);
    for (double& x : inputs.qkv) {
      x = rounded(30.0 * x, type);
    }
    const AttentionResults found = compute_attention(gpu(), shape, type, inputs);
    EXPECT_THAT(found.out,
                testing::Each(testing::Truly([](double x) { return std::isfinite(x); })));
    EXPECT_THAT(found.dqkv,
                testing::Each(testing::Truly([](double x) { return std::isfinite(x); })));
  }
}

TEST_F(GpuAttention, RefusesHeadsThatItHasNoKernelsFor) {
  const Attention shape{
      .seq_length = 1, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 257};
  try {
    compute_attention(gpu(), shape, DataType::kFloat32, AttentionInputs(shape, DataType::kFloat32));
    FAIL() << "took heads of 257";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "attention on a GPU: expected heads of 1 to 256 elements, got 257");
  }
}

}  // namespace
}  // namespace ptdp
