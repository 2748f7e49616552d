// Fused causal attention of the host's backend against the plain one and finite differences.
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/reference_attention.h"
#include "tests/kernels/finite_differences.h"
#include "tests/kernels/host_values.h"
#include "tests/kernels/philox_reference.h"

namespace ptdp {
namespace {

std::int64_t out_size(const Attention& shape) {
  return shape.seq_length * shape.batch * shape.heads * shape.head_size;
}
std::int64_t num_rows(const Attention& shape) {
  return shape.seq_length * shape.batch * shape.heads;
}

Attention with_dropout(Attention shape) {
  shape.dropout = {.probability = 0.2, .key = 77};
  return shape;
}

/// Odd sizes, one query, tiles that end anywhere, several heads and sequences, heads of a larger
/// layer; with and without dropout.
std::vector<Attention> shapes() {
  const std::vector<Attention> plain = {
      {.seq_length = 1, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 1},
      {.seq_length = 5, .batch = 2, .heads = 3, .total_heads = 3, .head_size = 4},
      {.seq_length = 64, .batch = 1, .heads = 2, .total_heads = 2, .head_size = 16},
      {.seq_length = 65, .batch = 2, .heads = 1, .total_heads = 1, .head_size = 20},
      {.seq_length = 130,
       .batch = 1,
       .heads = 2,
       .first_head = 4,
       .total_heads = 8,
       .head_size = 33,
       .first_sample = 3},
      {.seq_length = 200, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 80},
      {.seq_length = 0, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 8},
      {.seq_length = 8, .batch = 2, .heads = 0, .total_heads = 4, .head_size = 8},
  };
  std::vector<Attention> all = plain;
  for (const Attention& shape : plain) {
    all.push_back(with_dropout(shape));
  }
  return all;
}

/// Written from the definition, element by element; independent of the library's reference.
struct Naive {
  Values out, log_sum, dqkv;
};
Naive naive(const Attention& shape, const Values& qkv, const Values& dout) {
  const std::int64_t s = shape.seq_length;
  const std::int64_t b = shape.batch;
  const std::int64_t heads = shape.heads;
  const std::int64_t d = shape.head_size;
  Naive result{Values(out_size(shape)), Values(num_rows(shape)), Values(qkv.size())};
  const auto place = [&](std::int64_t i, std::int64_t n, std::int64_t h, std::int64_t which) {
    return (((i * b + n) * heads + h) * 3 + which) * d;
  };
  const double factor = 1.0 / std::sqrt(static_cast<double>(d));
  for (std::int64_t n = 0; n < b; ++n) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < s; ++i) {
        const double* const q = qkv.data() + place(i, n, h, 0);
        const std::int64_t row = ((i * b + n) * heads + h) * d;
        Values p(i + 1);
        Values mask(i + 1);
        Values dp(i + 1);
        double sum = 0.0;
        double inner = 0.0;
        for (std::int64_t j = 0; j <= i; ++j) {
          for (std::int64_t c = 0; c < d; ++c) {
            p[j] += factor * q[c] * qkv[place(j, n, h, 1) + c];
          }
          p[j] = std::exp(p[j]);
          sum += p[j];
          const std::int64_t number =
              (((shape.first_sample + n) * shape.total_heads + shape.first_head + h) * s + i) * s +
              j;
          mask[j] = mask_reference(shape.dropout.key, shape.dropout.probability,
                                   static_cast<std::uint64_t>(number));
        }
        result.log_sum[(n * heads + h) * s + i] = std::log(sum);
        for (std::int64_t j = 0; j <= i; ++j) {
          p[j] /= sum;
          for (std::int64_t c = 0; c < d; ++c) {
            result.out[row + c] += p[j] * mask[j] * qkv[place(j, n, h, 2) + c];
            dp[j] += mask[j] * dout[row + c] * qkv[place(j, n, h, 2) + c];
            result.dqkv[place(j, n, h, 2) + c] += p[j] * mask[j] * dout[row + c];
          }
          inner += p[j] * dp[j];
        }
        for (std::int64_t j = 0; j <= i; ++j) {
          const double ds = factor * p[j] * (dp[j] - inner);
          for (std::int64_t c = 0; c < d; ++c) {
            result.dqkv[place(i, n, h, 0) + c] += ds * qkv[place(j, n, h, 1) + c];
            result.dqkv[place(j, n, h, 1) + c] += ds * q[c];
          }
        }
      }
    }
  }
  return result;
}

struct Found {
  Values out, log_sum, dqkv;
};
Found fused(Backend& backend, DataType type, const Attention& shape, const Values& qkv,
            const Values& dout) {
  const Tensor in = tensor_of(backend, type, qkv);
  const Tensor out = poisoned(backend, type, out_size(shape));
  const Tensor log_sum = poisoned(backend, accumulator_of(type), num_rows(shape));
  const Tensor dqkv = poisoned(backend, type, in.buffer().size);
  backend.attention(shape, in, out, log_sum);
  backend.attention_backward(shape, in, out, log_sum, tensor_of(backend, type, dout), dqkv);
  return {read_values(out), read_values(log_sum), read_values(dqkv)};
}

TEST(Attention, EqualsTheDefinitionInEveryTypeForwardAndBackward) {
  for (const DataType type : kWorkingTypes) {
    for (const Attention& shape : shapes()) {
      const Values qkv = random_values(3 * out_size(shape), 1, type);
      const Values dout = random_values(out_size(shape), 2, type);
      const Naive expected = naive(shape, qkv, dout);
      for (const Loops* const loops : runnable_loops()) {
        CpuBackend backend(*loops);
        const Found found = fused(backend, type, shape, qkv, dout);
        const double unit = rounding_of(accumulator_of(type));
        const std::string what =
            std::string(name_of(type)) + " s=" + std::to_string(shape.seq_length);
        expect_close(found.log_sum, expected.log_sum, 64.0 * unit, 1.0, what);
        expect_close(found.out, expected.out, 1.01 * rounding_of(type) + 64.0 * unit, 1.0, what);
        // The inner products with `out` carry its rounding into every gradient of the row.
        expect_close(found.dqkv, expected.dqkv, 8.0 * rounding_of(type) + 256.0 * unit, 1.0, what);
      }
    }
  }
}

TEST(Attention, EqualsThePlainOneThatStoresAllProbabilities) {
  CpuBackend backend;
  for (const Attention& shape : shapes()) {
    const Values qkv = random_values(3 * out_size(shape), 1);
    const Values dout = random_values(out_size(shape), 2);
    const Found found = fused(backend, kDouble, shape, qkv, dout);
    Found plain{Values(out_size(shape)), Values(num_rows(shape)), Values(qkv.size())};
    reference_attention(shape, qkv, plain.out, plain.log_sum);
    reference_attention_backward(shape, qkv, dout, plain.dqkv);
    expect_close(found.out, plain.out, 1e-13, 1.0, "out");
    expect_close(found.log_sum, plain.log_sum, 1e-13, 1.0, "log_sum");
    expect_close(found.dqkv, plain.dqkv, 1e-13, 1.0, "dqkv");
  }
}

TEST(AttentionBackward, EqualsFiniteDifferencesWithAndWithoutDropout) {
  CpuBackend backend;
  const Attention plain{.seq_length = 9,
                        .batch = 2,
                        .heads = 2,
                        .first_head = 2,
                        .total_heads = 4,
                        .head_size = 3,
                        .first_sample = 5};
  for (const Attention& shape : {plain, with_dropout(plain)}) {
    const Values qkv = random_values(3 * out_size(shape), 1);
    const Values dout = random_values(out_size(shape), 2);
    const Values expected = numeric_gradient(qkv, [&](const Values& moved) {
      const Tensor out = poisoned(backend, kDouble, out_size(shape));
      const Tensor log_sum = poisoned(backend, kDouble, num_rows(shape));
      backend.attention(shape, tensor_of(backend, kDouble, moved), out, log_sum);
      return dot(read_values(out), dout);
    });
    expect_close(fused(backend, kDouble, shape, qkv, dout).dqkv, expected, 1e-6, 1.0, "dqkv");
  }
}

TEST(AttentionBackward, MayReplaceItsInput) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    for (const Attention& shape : shapes()) {
      const Values qkv = random_values(3 * out_size(shape), 1, type);
      const Values dout = random_values(out_size(shape), 2, type);
      const Tensor in = tensor_of(backend, type, qkv);
      const Tensor out = poisoned(backend, type, out_size(shape));
      const Tensor log_sum = poisoned(backend, accumulator_of(type), num_rows(shape));
      backend.attention(shape, in, out, log_sum);
      backend.attention_backward(shape, in, out, log_sum, tensor_of(backend, type, dout), in);
      EXPECT_EQ(read_values(in), fused(backend, type, shape, qkv, dout).dqkv);
    }
  }
}

// Heads of a layer on two ranks: the bits of one rank that has them all, dropout included.
TEST(Attention, GivesAHeadTheSameBitsWhoeverHoldsIt) {
  CpuBackend backend;
  const Attention all =
      with_dropout({.seq_length = 70, .batch = 2, .heads = 4, .total_heads = 4, .head_size = 8});
  for (const DataType type : kWorkingTypes) {
    const Values qkv = random_values(3 * out_size(all), 1, type);
    const Values dout = random_values(out_size(all), 2, type);
    const Found whole = fused(backend, type, all, qkv, dout);
    Attention half = all;
    half.heads = 2;
    half.first_head = 2;
    /// The second half of every token's heads.
    const auto second = [](const Values& values, std::int64_t width) {
      Values part;
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
        if (i % width >= width / 2) {
          part.push_back(values[i]);
        }
      }
      return part;
    };
    const Found part = fused(backend, type, half, second(qkv, 96), second(dout, 32));
    EXPECT_EQ(part.out, second(whole.out, 32));
    EXPECT_EQ(part.dqkv, second(whole.dqkv, 96));
  }
}

TEST(Attention, StaysFiniteWhenScoresAreLarge) {
  CpuBackend backend;
  const Attention shape{
      .seq_length = 80, .batch = 1, .heads = 1, .total_heads = 1, .head_size = 16};
  Values qkv = random_values(3 * out_size(shape), 1);
  for (double& x : qkv) {
    x *= 30.0;
  }
  for (const DataType type : kWorkingTypes) {
    const Values exact = rounded(qkv, type);
    const Found found = fused(backend, type, shape, exact, random_values(out_size(shape), 2, type));
    for (const double x : found.out) {
      ASSERT_TRUE(std::isfinite(x)) << name_of(type);
    }
    for (const double x : found.dqkv) {
      ASSERT_TRUE(std::isfinite(x)) << name_of(type);
    }
  }
}

}  // namespace
}  // namespace ptdp
