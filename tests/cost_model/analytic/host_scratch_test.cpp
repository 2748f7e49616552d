#include "cost_model/analytic/host_scratch.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

// By hand, s = 128, d = 32: keys 4096, three tiles of 96·32, two of scores 96², four rows of 96
// forward; three times 4096, 128, six tiles, three of scores and a row backward.
TEST(HostAttentionScratch, IsAHeadAndItsTiles) {
  const AttentionScratch fp32 = host_attention_scratch(128, 32, Precision::kFp32);
  EXPECT_EQ(fp32.forward, Bytes(4.0 * (4096 + 3 * 3072 + 2 * 9216 + 384)));
  EXPECT_EQ(fp32.backward, Bytes(4.0 * (3 * 4096 + 128 + 6 * 3072 + 3 * 9216 + 96)));
  EXPECT_EQ(host_attention_scratch(128, 32, Precision::kBf16).backward, fp32.backward);
  EXPECT_EQ(host_attention_scratch(128, 32, Precision::kFp64).backward, 2.0 * fp32.backward);
}

TEST(HostProductScratch, IsABlockOfEachFactor) {
  const HostProduct small{.m = 64, .n = 32, .k = 16};
  EXPECT_EQ(host_product_scratch(small, Precision::kFp64), Bytes(8.0 * (64 * 16 + 16 * 32)));
  const HostProduct large{.m = 4096, .n = 4096, .k = 4096};
  EXPECT_EQ(host_product_scratch(large, Precision::kFp64), Bytes(8.0 * (120 * 256 + 256 * 512)));
  EXPECT_EQ(host_product_scratch(large, Precision::kFp32), Bytes(0.0));
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
