// Tests of the scratch memory of a host's operations.
#include "cost_model/operations/host_scratch.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

// By hand, s = 128, d = 32: keys in panels of 12 rows 132·32, three tiles of 96·32, two of scores
// 96², four rows of 96 forward; queries and gradients of as many rows, 4096 of the queries', 128,
// six tiles, three of scores and a row backward.
TEST(HostAttentionScratch, IsAHeadAndItsTiles) {
  const AttentionScratch fp32 = host_attention_scratch(128, 32, false, Precision::kFp32);
  EXPECT_EQ(fp32.forward, Bytes(4.0 * (4224 + 3 * 3072 + 2 * 9216 + 384)));
  EXPECT_EQ(fp32.backward, Bytes(4.0 * (2 * 4224 + 4096 + 128 + 6 * 3072 + 3 * 9216 + 96)));
  EXPECT_EQ(host_attention_scratch(128, 32, false, Precision::kBf16).backward, fp32.backward);
  EXPECT_EQ(host_attention_scratch(128, 32, false, Precision::kFp64).backward, 2.0 * fp32.backward);
  // Heads have 8 columns: values, keys and queries in panels of 32.
  EXPECT_EQ(host_attention_scratch(12, 8, false, Precision::kFp32).forward,
            Bytes(4.0 * (12 * 8 + 2 * 96 * 8 + 96 * 32 + 2 * 9216 + 384)));
}

TEST(HostProductScratch, IsABlockOfEachFactor) {
  const HostProduct small{.m = 60, .n = 32, .k = 16};
  EXPECT_EQ(host_product_scratch(small, Precision::kFp64), Bytes(8.0 * (60 * 16 + 16 * 32)));
  EXPECT_EQ(host_product_scratch(small, Precision::kFp32), Bytes(4.0 * (60 * 16 + 16 * 32)));
  // Panels of 12 rows and of 16 columns, here 72 and 48.
  const HostProduct odd{.m = 61, .n = 33, .k = 16};
  EXPECT_EQ(host_product_scratch(odd, Precision::kFp64), Bytes(8.0 * (72 * 16 + 16 * 48)));
  const HostProduct large{.m = 4096, .n = 4096, .k = 4096};
  EXPECT_EQ(host_product_scratch(large, Precision::kFp64), Bytes(8.0 * (120 * 256 + 256 * 512)));
}

// By hand; what oneDNN says of these shapes is in tests/kernels/cpu/product_scratch_test.cpp.
TEST(HostProductScratch, IsWhatALibraryPacks) {
  const auto scratch = [](const HostProduct& product) {
    return host_product_scratch(product, Precision::kFp32);
  };
  // Nothing but the batch; 128 steps of 64 columns of B.
  EXPECT_EQ(scratch({.m = 128, .n = 384, .k = 128}), Bytes(640.0));
  EXPECT_EQ(scratch({.m = 128, .n = 384, .k = 128, .transposes_b = true}),
            Bytes(640.0 + 128 + 4 * 128 * 64));
  // Two blocks of A of 132 rows are closest to 263; 512 steps and a pad; sums of three blocks
  // of 64.
  EXPECT_EQ(scratch({.m = 263, .n = 174, .k = 2756, .transposes_a = true, .narrows = false}),
            Bytes(640.0 + 2 * 128 + 4 * 132 * 528 + 4 * 132 * 3 * 64));
  // B of bf16 is always packed.
  EXPECT_EQ(host_product_scratch({.m = 128, .n = 128, .k = 384}, Precision::kBf16),
            Bytes(640.0 + 128 + 2 * 384 * 64));
}

TEST(HostLinearScratch, IsThatOfItsProductsAndOfABias) {
  const LinearScratch scratch = host_linear_scratch(128, 384, 128, Precision::kFp32);
  EXPECT_EQ(scratch.forward, Bytes(640.0 + 128 + 4 * 128 * 64));
  EXPECT_EQ(scratch.input, Bytes(640.0));
  EXPECT_EQ(scratch.weight, Bytes(640.0 + 128 + 4 * 192 * 128));
  EXPECT_EQ(host_linear_scratch(1, 20000, 1, Precision::kFp32).weight, Bytes(2.0 * 4 * 20000));
}

TEST(HostProductScratch, HasSumsOfANarrowResult) {
  HostProduct large{.m = 4096, .n = 4096, .k = 4096};
  EXPECT_EQ(host_product_scratch(large, Precision::kFp16),
            Bytes(4.0 * (120 * 256 + 256 * 512 + 512 * 512)));
  large.narrows = false;
  EXPECT_EQ(host_product_scratch(large, Precision::kFp16), Bytes(4.0 * (120 * 256 + 256 * 1024)));
}

TEST(ReductionScratch, HoldsASliceOrTwoFromEachNeighbour) {
  EXPECT_EQ(reduction_scratch(1024, 1, 4), Bytes(0.0));
  EXPECT_EQ(reduction_scratch(0, 2, 4), Bytes(0.0));
  EXPECT_EQ(reduction_scratch(1024, 2, 4), Bytes(512.0));      // a part
  EXPECT_EQ(reduction_scratch(1024, 4, 4), Bytes(2.0 * 256));  // two of them
  EXPECT_EQ(reduction_scratch(1000, 3, 8), Bytes(2.0 * 42 * 8));
  EXPECT_EQ(reduction_scratch(8 << 20, 2, 4), Bytes(2.0 * (256 << 10)));
  EXPECT_EQ(reduction_scratch(8 << 20, 4, 2), Bytes(4.0 * (256 << 10)));
  EXPECT_EQ(reduction_scratch(3 << 18, 2, 4), Bytes(2.0 * (3 << 16)));  // 1.5 slices: two of 3/4
}

}  // namespace
}  // namespace ptdp
