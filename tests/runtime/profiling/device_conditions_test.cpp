// Tests of how a device's clocks, power and heat are summarized.
#include "runtime/profiling/device_conditions.h"

#include <gmock/gmock.h>

namespace ptdp {
namespace {

TEST(DeviceConditions, AreRangesAndSharesOfTheSamples) {
  const DeviceConditions conditions = conditions_of(
      {{.clock = 1900.0, .memory_clock = 3201.0, .power = 300.0, .temperature = 40.0},
       {.clock = 1500.0,
        .memory_clock = 3201.0,
        .power = 700.0,
        .temperature = 60.0,
        .held_back_by = kHeldByPower},
       {.clock = 1400.0,
        .memory_clock = 3201.0,
        .power = 500.0,
        .temperature = 62.0,
        .held_back_by = kHeldByPower | kHeldByHeat},
       {.clock = 1600.0, .memory_clock = 3201.0, .power = 500.0, .temperature = 50.0}});
  EXPECT_EQ(conditions.num_samples, 4);
  EXPECT_DOUBLE_EQ(conditions.clock.mean, 1600.0);
  EXPECT_DOUBLE_EQ(conditions.clock.least, 1400.0);
  EXPECT_DOUBLE_EQ(conditions.clock.most, 1900.0);
  EXPECT_DOUBLE_EQ(conditions.held_by_power, 0.5);
  EXPECT_DOUBLE_EQ(conditions.held_by_heat, 0.25);
  EXPECT_EQ(describe_conditions(conditions),
            "clock 1600 MHz (1400 to 1900), memory clock 3201 MHz, 500 W (300 to 700), 53 C (40 to "
            "62); held back by power 50 %, by heat 25 % of the time");
}

// 2000 and 2001.8 MHz are within a thousandth: a clock that is steady is told by its mean. From 40
// to 41 degrees is a range.
TEST(DeviceConditions, AreOneNumberWhereTheyAreSteady) {
  const std::vector<DeviceSample> samples = {
      {.clock = 2000.0,
       .memory_clock = 3000.0,
       .power = 100.0,
       .temperature = 40.0,
       .held_back_by = kHeldByHardware},
      {.clock = 2001.8, .memory_clock = 3006.0, .power = 100.0, .temperature = 41.0},
      {.clock = 2001.8, .memory_clock = 3006.0, .power = 100.0, .temperature = 41.0}};
  EXPECT_EQ(describe_conditions(conditions_of(samples)),
            "clock 2001 MHz, memory clock 3004 MHz (3000 to 3006), 100 W, 41 C (40 to 41); held "
            "back by its hardware 33 % of the time");
}

TEST(DeviceConditions, AreNothingWithoutSamples) {
  EXPECT_EQ(conditions_of({}).num_samples, 0);
  EXPECT_EQ(describe_conditions(conditions_of({})), "");
}

TEST(ClockDrop, IsOfTheMeanAndNeverARise) {
  const DeviceConditions fast = conditions_of({{.clock = 2000.0}});
  const DeviceConditions slow = conditions_of({{.clock = 1800.0}});
  EXPECT_DOUBLE_EQ(clock_drop(fast, slow), 0.1);
  EXPECT_DOUBLE_EQ(clock_drop(slow, fast), 0.0);
  EXPECT_DOUBLE_EQ(clock_drop({}, slow), 0.0);
}

}  // namespace
}  // namespace ptdp
