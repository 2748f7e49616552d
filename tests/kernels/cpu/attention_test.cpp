// Tests a host's attention: that of every instruction set, and the plain one that stores all
// probabilities.
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/reference_attention.h"
#include "tests/kernels/attention_passes.h"

namespace ptdp {
namespace {

TEST(HostAttention, EqualsTheDefinitionWithEveryInstructionSet) {
  for (const DataType type : kWorkingTypes) {
    for (const Attention& shape : attention_shapes()) {
      const AttentionInputs inputs(shape, type);
      const AttentionResults expected = naive_attention(shape, inputs);
      for (const KernelTable* const loops : runnable_kernels()) {
        SCOPED_TRACE(loops->name);
        CpuBackend backend(*loops);
        expect_near(both_passes(backend, shape, type, inputs), expected, type, shape);
      }
    }
  }
}

TEST(ReferenceAttention, EqualsTheFusedOne) {
  CpuBackend backend;
  for (const Attention& shape : attention_shapes()) {
    const AttentionInputs inputs(shape, kDouble);
    AttentionResults plain{Values(inputs.dout.size()), Values(attention_rows(shape)),
                           Values(inputs.qkv.size())};
    const AttentionResults expected = both_passes(backend, shape, kDouble, inputs);
    reference_attention(shape, inputs.qkv, plain.out, plain.log_sum);
    reference_attention_backward(shape, inputs.qkv, inputs.dout, plain.dqkv);
    expect_close(plain.out, expected.out, 1e-13, 1.0, "out");
    expect_close(plain.log_sum, expected.log_sum, 1e-13, 1.0, "log_sum");
    expect_close(plain.dqkv, expected.dqkv, 1e-13, 1.0, "dqkv");
  }
}

}  // namespace
}  // namespace ptdp
