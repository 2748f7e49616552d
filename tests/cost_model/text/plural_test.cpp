#include "cost_model/text/plural.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

TEST(Plural, AddsAnSUnlessThereIsOne) {
  EXPECT_EQ(plural(1, "step"), "1 step");
  EXPECT_EQ(plural(0, "step"), "0 steps");
  EXPECT_EQ(plural(12, "GPU"), "12 GPUs");
}

TEST(Plural, TakesAPluralOfItsOwn) {
  EXPECT_EQ(plural(1, "process", "processes"), "1 process");
  EXPECT_EQ(plural(2, "process", "processes"), "2 processes");
}

}  // namespace
}  // namespace ptdp
