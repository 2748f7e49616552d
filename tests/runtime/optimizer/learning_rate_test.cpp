// Tests of the learning rate: warm-up and decay.
#include "runtime/optimizer/learning_rate.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

constexpr LearningRateSchedule kSchedule{
    .maximum = 6e-4, .minimum = 6e-5, .warm_up_steps = 4, .decay_steps = 12};

// t/4 of 6e-4; then cos(π/4) = 0.70710678, cos(π/2) = 0 and cos(3π/4), of (6e-4 − 6e-5)/2 around
// 3.3e-4.
TEST(LearningRate, WarmsUpLinearlyAndDecaysAsACosine) {
  struct Row {
    int step;
    double expected;
  };
  for (const Row row :
       {Row{1, 1.5e-4}, Row{2, 3e-4}, Row{4, 6e-4}, Row{6, 3.3e-4 + 2.7e-4 * 0.7071067811865476},
        Row{8, 3.3e-4}, Row{10, 3.3e-4 - 2.7e-4 * 0.7071067811865476}, Row{12, 6e-5}, Row{13, 6e-5},
        Row{1000, 6e-5}}) {
    EXPECT_NEAR(learning_rate(kSchedule, row.step), row.expected, 1e-18) << "step " << row.step;
  }
}

TEST(LearningRate, StartsAtTheFullRateWithoutWarmUp) {
  EXPECT_EQ(learning_rate({.maximum = 1e-3, .decay_steps = 1}, 1), 0.0);
  EXPECT_NEAR(learning_rate({.maximum = 1e-3, .decay_steps = 2}, 1), 5e-4, 1e-18);
}

// The last step of the warm-up has the whole rate, also where the decay ends with it.
TEST(LearningRate, RisesToTheMaximumThoughItDecaysAtThatStep) {
  const LearningRateSchedule schedule{
      .maximum = 6e-4, .minimum = 6e-5, .warm_up_steps = 4, .decay_steps = 4};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 3), 4.5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 6e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 5), 6e-5);
}

// With equal bounds the cosine is a line; a warm-up longer than the decay goes on to its end.
TEST(LearningRate, IsConstantBetweenEqualBoundsAndWarmsUpFirst) {
  for (std::int64_t step = 1; step <= 12; ++step) {
    EXPECT_DOUBLE_EQ(learning_rate({.maximum = 1e-3, .minimum = 1e-3, .decay_steps = 10}, step),
                     1e-3);
  }
  EXPECT_DOUBLE_EQ(learning_rate({.maximum = 1.0, .warm_up_steps = 8, .decay_steps = 2}, 6), 0.75);
}

TEST(LearningRate, StaysAtTheMaximumWithoutDecay) {
  const LearningRateSchedule constant{.maximum = 1e-3, .warm_up_steps = 2};
  EXPECT_EQ(learning_rate(constant, 1), 5e-4);
  EXPECT_EQ(learning_rate(constant, 2), 1e-3);
  EXPECT_EQ(learning_rate(constant, 1'000'000), 1e-3);
}

}  // namespace
}  // namespace ptdp
