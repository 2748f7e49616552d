// Tests of how the loss scale grows and halves.
#include "runtime/optimizer/loss_scaler.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

void take_good_steps(LossScaler& scaler, int count) {
  for (int i = 0; i < count; ++i) {
    scaler.update(/*has_overflowed=*/false);
  }
}

TEST(LossScaler, StartsAtTwoToTheSixteenthAndDoublesAfterAThousandGoodSteps) {
  LossScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536.0);
  take_good_steps(scaler, 999);
  EXPECT_EQ(scaler.scale(), 65536.0);
  take_good_steps(scaler, 1);
  EXPECT_EQ(scaler.scale(), 131072.0);
  take_good_steps(scaler, 1000);
  EXPECT_EQ(scaler.scale(), 262144.0);
}

TEST(LossScaler, HalvesAtEveryOverflowAndCountsAnew) {
  LossScaler scaler;
  take_good_steps(scaler, 999);
  scaler.update(/*has_overflowed=*/true);
  scaler.update(/*has_overflowed=*/true);
  EXPECT_EQ(scaler.scale(), 16384.0);
  take_good_steps(scaler, 999);
  EXPECT_EQ(scaler.scale(), 16384.0);
  take_good_steps(scaler, 1);
  EXPECT_EQ(scaler.scale(), 32768.0);
}

TEST(LossScaler, StaysBetweenOneAndTwoToTheThirtySecond) {
  LossScaler small;
  for (int i = 0; i < 40; ++i) {
    small.update(/*has_overflowed=*/true);
  }
  EXPECT_EQ(small.scale(), 1.0);
  LossScaler large;
  take_good_steps(large, 40'000);
  EXPECT_EQ(large.scale(), 4294967296.0);
}

// At either bound the count goes on as usual.
TEST(LossScaler, CountsAtItsBoundsToo) {
  LossScaler small({.scale = 1.0, .good_steps = 999});
  small.update(/*has_overflowed=*/true);
  EXPECT_EQ(small.state(), (LossScaler::State{.scale = 1.0, .good_steps = 0}));
  take_good_steps(small, 1000);
  EXPECT_EQ(small.state(), (LossScaler::State{.scale = 2.0, .good_steps = 0}));
  LossScaler large({.scale = 4294967296.0, .good_steps = 999});
  take_good_steps(large, 1);
  EXPECT_EQ(large.state(), (LossScaler::State{.scale = 4294967296.0, .good_steps = 0}));
  large.update(/*has_overflowed=*/true);
  EXPECT_EQ(large.scale(), 2147483648.0);
}

TEST(LossScaler, GoesOnFromItsState) {
  LossScaler scaler;
  take_good_steps(scaler, 500);
  LossScaler resumed(scaler.state());
  take_good_steps(resumed, 500);
  EXPECT_EQ(resumed.scale(), 131072.0);
  EXPECT_EQ(resumed.state().good_steps, 0);
}

}  // namespace
}  // namespace ptdp
