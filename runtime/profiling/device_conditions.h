// How a device did while it was measured: clocks, power, temperature, and what held them back.
#pragma once

#include <string>
#include <vector>

#include "kernels/device_sample.h"

namespace ptdp {

/// Mean and extremes of a number that was sampled.
struct SampledRange {
  double mean = 0.0;
  double least = 0.0;
  double most = 0.0;
};

/// Summary of the samples of a device.
struct DeviceConditions {
  int num_samples = 0;
  SampledRange clock;         ///< [MHz]
  SampledRange memory_clock;  ///< [MHz]
  SampledRange power;         ///< [W]
  SampledRange temperature;   ///< [°C]
  // Fractions of the samples in which the device was held back.
  double held_by_power = 0.0;
  double held_by_heat = 0.0;
  double held_by_hardware = 0.0;
};
/// Returns the summary of some samples; num_samples is 0 without any.
[[nodiscard]] DeviceConditions conditions_of(const std::vector<DeviceSample>& samples);

/// Returns a text as "clock 1755 MHz (1410 to 1980), memory clock 3201 MHz, 590 W (112 to 701), 41
/// to 63 C; held back by power 62 % of the time". Returns "" without samples.
[[nodiscard]] std::string describe_conditions(const DeviceConditions& conditions);

/// Returns the fraction by which the mean clock fell from `first` to `second`, which did the same
/// work. Returns 0 when it did not fall, or is not known.
[[nodiscard]] double clock_drop(const DeviceConditions& first, const DeviceConditions& second);

}  // namespace ptdp
